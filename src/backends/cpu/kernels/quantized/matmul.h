// SPDX-License-Identifier: Apache-2.0
// Products with weights that stay in GGUF's blocks: y[N, out] = x[N, in] W^T, W [out, in] as in the
// file. Not the formats (base/block_formats.h) and not the rounding of x (activations.h).
//
// Which form to choose:
//   fast mode   quantize_activations once for all GEMMs that read the same x, then
//               quantized_gemv (x in bytes) for N <= kGemvTokens, else quantized_gemm (x in words);
//               both take any N. Error: that of x rounded to 8 or 16 bits; the integer sums are
//               exact. Where there are tiles of bf16 (AMX), tiles.h for N > kGemvTokens.
//   exact mode  quantized_gemv_exact for N <= kGemvTokens, else quantized_gemm_exact: activations
//               and sums in fp32.
// A weight that is f32, f16 or bf16 (a file mixes them) has the exact forms alone: supports_fast().
//
// A call takes several GEMMs with the same x (q, k and v; gate and up), of
// any mix of dtypes, and splits their rows of W over the threads in one parallel
// region. Each output is one sum in an order that the shape and the instruction
// set fix, so its bits depend on neither the thread count, nor N, nor what else
// is in the call; quantized_gemv and quantized_gemm may differ in the last bits.
//
// Weights in 2 MiB pages read faster than a mapped file's 4 KiB pages: on one core 30 GB/s against
// 19, on two 33 against 25.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/quantized/activations.h"
#include "backends/kernels/strided_rows.h"
#include "base/dtype.h"

namespace ridge::backends::cpu {

// [out, in], rows dense one after another; `in` is whole blocks, data
// aligned as its elements or blocks are (2, for f32 4). Or panels of
// rows (base/row_panels.h), in fast mode where takes_panels().
struct QuantizedMatrix {
  DType dtype = DType::kQ8_0;
  int64_t out = 0;
  int64_t in = 0;
  const std::byte* data = nullptr;
};

struct QuantizedProduct {
  QuantizedMatrix weight;
  StridedRows<float> y;     // [N, out]
  bool accumulate = false;  // y += instead of y =
};

// Up to here a GEMM reads W once for every few tokens and is bound by memory; from here on
// unpacking W for all tokens pays.
inline constexpr int64_t kGemvTokens = 4;

// Every block dtype, and f32, f16, bf16 (exact only).
bool supports_quantized(DType dtype);
bool supports_fast(DType dtype);
// Whether the instruction set in force multiplies panels of rows, which is faster than rows.
bool takes_panels();

// Bound: memory, the bytes of W at the read bandwidth, to about two parts of tokens. `next` is the
// weight that is multiplied after these, whose first bytes are asked for with their last; without
// data: none is known.
void quantized_gemv(std::span<const QuantizedProduct> products,
                    const QuantizedActivations& x,
                    const QuantizedMatrix& next = {});

// Bound: 16-bit multiply-adds; W is unpacked once, to a panel of 16 rows in L1.
void quantized_gemm(std::span<const QuantizedProduct> products, const QuantizedActivations& x);

void quantized_gemv_exact(std::span<const QuantizedProduct> products,
                          StridedRows<const float> x,
                          int64_t tokens);
void quantized_gemm_exact(std::span<const QuantizedProduct> products,
                          StridedRows<const float> x,
                          int64_t tokens);

}  // namespace ridge::backends::cpu
