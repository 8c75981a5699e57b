// SPDX-License-Identifier: Apache-2.0
// Copies between strided layouts on CUDA, as backends/kernels/copy.h describes them, and parts put
// side by side in one launch.
#pragma once

#include <span>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/copy.h"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

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
  StridedRows<const T> x;  // [rows, columns]
  int64_t columns = 0;
  int64_t first = 0;
};

inline constexpr int kConcatMaxParts = 16;

template <typename T>
struct Concat {
  int64_t rows = 0;
  std::span<const ConcatPart<T>> parts;  // at most kConcatMaxParts; read before the launch returns
  StridedRows<T> y;
};

// One launch. T stands for its bits, as a copy's does.
template <typename T>
cudaError_t launch_concat(const Concat<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
