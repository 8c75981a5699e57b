// SPDX-License-Identifier: Apache-2.0
// One function of the pointwise table (base/pointwise.h) over strided operands, on CUDA: what
// `baseline` runs for each primitive. Clusters are generated elsewhere. Arithmetic is fp32, storage
// f32 or bf16.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "base/dtype.h"
#include "base/pointwise.h"

namespace ridge::backends::cuda {

inline constexpr int kPointwiseMaxRank = 6;

struct PointwiseOperand {
  void* data = nullptr;
  DType dtype = DType::kF32;                // or kBF16
  int64_t strides[kPointwiseMaxRank] = {};  // over the domain's axes, in elements; 0 repeats
};

struct PointwiseCall {
  Pointwise function = Pointwise::kAdd;
  float parameter = 0;
  int rank = 0;  // of the domain; 0: one element
  int64_t extents[kPointwiseMaxRank] = {};
  PointwiseOperand a;
  PointwiseOperand b;  // of a's dtype; not read by functions of one operand
  // Of a's dtype unless the function is kCast; may be a's or b's bytes in the same layout
  PointwiseOperand y;
};

// Vectors of 16 bytes where the operands run on, or repeat, along the innermost axis; else single
// elements. cudaErrorInvalidValue for other dtypes, a rank out of range, a negative extent or
// stride. One launch; none for no elements.
cudaError_t launch_pointwise(const PointwiseCall& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
