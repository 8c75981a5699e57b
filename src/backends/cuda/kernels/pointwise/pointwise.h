// SPDX-License-Identifier: Apache-2.0
// One function of the pointwise table (base/pointwise.h) over strided operands, on CUDA: `baseline`
// runs it for each primitive. Clusters have generated kernels instead. Arithmetic is fp32, storage
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
  int rank = 0;  // rank of the domain; 0: one element
  int64_t extents[kPointwiseMaxRank] = {};
  PointwiseOperand a;
  PointwiseOperand b;  // same dtype as a; not read by functions of one operand
  // Same dtype as a unless the function is kCast; may share the bytes of a or b in the same layout
  PointwiseOperand y;
};

// Uses vectors of 16 bytes if the operands are contiguous or repeat along the innermost axis;
// otherwise single elements. Returns cudaErrorInvalidValue for other dtypes, a rank out of range,
// or a negative extent or stride. One launch for each 2^30 elements.
cudaError_t launch_pointwise(const PointwiseCall& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
