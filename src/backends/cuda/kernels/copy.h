// SPDX-License-Identifier: Apache-2.0
// Copies between strided layouts of up to six dimensions on CUDA, with conversion between float and
// uint16_t (bf16) and optional addition. Same-type copies move bits, so any 4-byte or 2-byte type
// may pass as float or uint16_t.
#pragma once

#include <cstdint>
#include <span>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/rows.h"

namespace ridge::backends::cuda {

inline constexpr int kCopyMaxRank = 6;

struct CopyLayout {
  int rank = 0;  // 0: one element
  int64_t extents[kCopyMaxRank] = {};
  int64_t source_strides[kCopyMaxRank] = {};  // elements; 0 repeats the source
  int64_t target_strides[kCopyMaxRank] = {};  // elements; no two target elements may be one
};

template <typename From, typename To>
struct Copy {
  CopyLayout layout;
  const From* source = nullptr;
  To* target = nullptr;     // no overlap with the source
  bool accumulate = false;  // target += source, added in fp32
};

// Fast where the innermost target dimension is contiguous and the source has that dimension, or
// another, contiguous (runs, transpositions), or repeats one element along it. Any other layout is
// right but moves single elements. cudaErrorInvalidValue for a rank out of range or a negative
// extent or stride. One launch; none for no elements.
template <typename From, typename To>
cudaError_t launch_copy(const Copy<From, To>& call, cudaStream_t stream);

// The contiguous case.
template <typename From, typename To>
cudaError_t launch_cast(const From* source, To* target, int64_t elements, cudaStream_t stream);

// Parts side by side: each fills `columns` columns of the rows of y that start at its `first`.
template <typename T>
struct ConcatPart {
  Rows<const T> x;  // [rows, columns]
  int64_t columns = 0;
  int64_t first = 0;
};

inline constexpr int kConcatMaxParts = 16;

template <typename T>
struct Concat {
  int64_t rows = 0;
  std::span<const ConcatPart<T>> parts;  // at most kConcatMaxParts; read before the launch returns
  Rows<T> y;
};

// One launch. T stands for its bits, as above.
template <typename T>
cudaError_t launch_concat(const Concat<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
