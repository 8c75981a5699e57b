// SPDX-License-Identifier: Apache-2.0
// Products of one fp32 input and weights in the type in which their file stores them, on CUDA, in
// plain fp32. Products of operands of one type use cuBLASLt, or skinny_gemm.h for a few rows.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

template <typename Weight>
struct QuantizedGemm {
  int64_t tokens = 0;  // N
  int64_t in = 0;
  int64_t out = 0;
  const float* x = nullptr;        // [N, in]
  const Weight* weight = nullptr;  // [out, in]; float or uint16_t (bf16)
  float* y = nullptr;              // [N, out]
};

// y = x weight^T. One launch.
template <typename Weight>
cudaError_t launch_quantized_gemm(const QuantizedGemm<Weight>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
