// SPDX-License-Identifier: Apache-2.0
// A projection of a few rows in bf16, fused with the operations before and after it, on CUDA: the
// op skinny_gemm (ops/skinny_gemm.cc), and plain GEMMs of a few rows. More rows use cuBLASLt.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

enum class GemmActivation : uint8_t { kNone, kSilu, kGeluTanh };

struct SkinnyGemm {
  int64_t tokens = 0;       // N, at most kSkinnyGemmMostTokens
  int64_t in = 0;           // D, a multiple of 32
  int64_t weight_rows = 0;  // F
  // [N, D]. Rows start at multiples of 16 bytes, here and in all operands below.
  StridedRows<const uint16_t> x;
  StridedRows<const uint16_t> weight;  // [F, D]
  const float* norm = nullptr;         // [D]: x is normed; null: not normed
  StridedRows<const uint16_t> delta;   // [N, D]: normed, then added to x first; may be absent
  const float* delta_norm = nullptr;
  bool is_ready_early = false;  // no earlier kernel writes the weight or a norm's weight
  float eps = 0;
  float norm_offset = 0;      // added to the norms' weights
  StridedRows<uint16_t> sum;  // [N, D]: x plus the normed delta; only with delta
  // If set: activation of the first F/2 columns, multiplied by the other columns.
  GemmActivation activation = GemmActivation::kNone;
  StridedRows<const uint16_t> residual;  // [N, F or F/2], added to y; may be absent
  // [N, F or F/2]; uint16_t (bf16), or float if y_is_f32.
  void* y = nullptr;
  int64_t y_stride = 0;
  bool y_is_f32 = false;
};

inline constexpr int64_t kSkinnyGemmMostTokens = 8;
// Maximum number of elements of all rows if they are normed: a block keeps them in its shared
// memory, which leaves less for loads in flight (at 8 rows of 4096 the product took 1.5 times as
// long).
inline constexpr int64_t kSkinnyGemmMostNormed = 16384;

// One launch, which may start while the previous one ends.
cudaError_t launch_skinny_gemm(const SkinnyGemm& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
