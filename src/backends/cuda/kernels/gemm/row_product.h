// SPDX-License-Identifier: Apache-2.0
// A projection of a few rows in bf16 with what stands before and
// behind it, on CUDA: the op row_product (ops/row_product.cc) and
// short products as they are. Not for many rows: those are cuBLASLt's.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

enum class RowActivation : uint8_t { kNone, kSilu, kGeluTanh };

struct RowProduct {
  int64_t tokens = 0;             // N, at most kRowProductMostTokens
  int64_t in = 0;                 // D, a multiple of 32
  int64_t weight_rows = 0;        // F
  StridedRows<const uint16_t> x;  // [N, D]; rows at multiples of 16 bytes, as those of all below
  StridedRows<const uint16_t> weight;  // [F, D]
  const float* norm = nullptr;         // [D]: x is normed; null: as it is
  StridedRows<const uint16_t> delta;   // [N, D]: its norm is added to x first; may be absent
  const float* delta_norm = nullptr;
  bool is_settled = false;  // no kernel before this one writes the weight or a norm's
  float eps = 0;
  float norm_offset = 0;      // added to the norms' weights
  StridedRows<uint16_t> sum;  // [N, D]: x with what was added; where delta is
  // Else of the first F/2 columns, times the others
  RowActivation activation = RowActivation::kNone;
  StridedRows<const uint16_t> residual;  // [N, F or F/2], added to y; may be absent
  void* y = nullptr;                     // [N, F or F/2]; uint16_t (bf16), or float where y_is_f32
  int64_t y_stride = 0;
  bool y_is_f32 = false;
};

inline constexpr int64_t kRowProductMostTokens = 8;
// Elements of all rows where they are normed: a block keeps them in its shared memory, which is
// taken from what loads on their way need (at 8 rows of 4096 the product took 1.5 times as long).
inline constexpr int64_t kRowProductMostNormed = 16384;

// One launch, which may begin while the one before it ends.
cudaError_t launch_row_product(const RowProduct& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
