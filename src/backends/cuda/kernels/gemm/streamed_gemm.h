// SPDX-License-Identifier: Apache-2.0
// A projection of some tens of rows in bf16 on Hopper, which is bound by reading the weight: its
// first tiles are on their way to shared memory while the kernels before it run. Up to eight rows
// are in skinny_gemm.h; other GPUs and more rows use cuBLASLt.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gemm/skinny_gemm.h"

namespace ridge::backends::cuda {

struct StreamedGemm {
  int64_t tokens = 0;                  // N, at most kStreamedGemmMostTokens
  int64_t in = 0;                      // D
  int64_t weight_rows = 0;             // F
  StridedRows<const uint16_t> x;       // [N, D]
  StridedRows<const uint16_t> weight;  // [F, D]
  bool is_ready_early = false;         // no earlier kernel writes the weight
  // If set: activation of the first F/2 columns, multiplied by the other columns.
  GemmActivation activation = GemmActivation::kNone;
  void* y = nullptr;  // [N, F or F/2]; uint16_t (bf16), or float if y_is_f32
  int64_t y_stride = 0;
  bool y_is_f32 = false;
};

inline constexpr int64_t kStreamedGemmMostTokens = 64;

// Whether the current GPU, the copy engine and the vectors of the result support the product:
// compute capability 9.0, rows of x and of the weight at multiples of 16 bytes, D and the columns
// of y multiples of 8, and at most as many rows of the weight as all blocks at once multiply.
bool takes_streamed_gemm(const StreamedGemm& call);

// One launch, which may start while the previous one ends; no workspace; sums in a fixed order.
cudaError_t launch_streamed_gemm(const StreamedGemm& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
