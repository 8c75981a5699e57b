// SPDX-License-Identifier: Apache-2.0
// GEMMs with weights that stay in GGUF's blocks: y[N, out] = x[N, in] W^T, with W [out, in] as in
// the file. base/block_formats.h defines the formats, activations.h the rounding of x.
//
// Which form to choose:
//   fast mode   quantize_activations once for all GEMMs that read the same x, then
//               quantized_gemv (x as few_token_codes() says, or in bytes) for N <= kGemvTokens, of
//               panels up to kDirectVectors, else quantized_gemm (x in words, or in bytes); both
//               accept any N. Error: that of x rounded to 8 or 16 bits; the integer sums are
//               exact. With bf16 tiles (AMX), use tiles.h for N > kGemvTokens.
//   exact mode  quantized_gemv_exact for N <= kGemvTokens, else quantized_gemm_exact: activations
//               and sums in fp32.
// A weight in f32, f16 or bf16 (files mix them with blocks) has only the exact forms:
// supports_fast().
//
// A call takes several GEMMs with the same x (q, k and v), of any mix of dtypes, or one GLU (gate and
// up; fast mode alone), and splits their rows of W over the threads in one parallel region. Each
// output is one sum whose order is fixed by the shape and the instruction set. Its bits depend neither
// on the thread count, nor on N, nor on the other GEMMs of the call; quantized_gemv and quantized_gemm
// may differ in the last bits.
//
// Weights in 2 MiB pages are read faster than in the 4 KiB pages of a mapped file: 30 GB/s against
// 19 on one core, 33 against 25 on two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/quantized/activations.h"
#include "backends/kernels/glu.h"
#include "backends/kernels/strided_rows.h"
#include "base/dtype.h"

namespace ridge::backends::cpu {

// [out, in] with dense rows; `in` is whole blocks, and data has the alignment of its elements or
// blocks (2, for f32 4). In fast mode with takes_panels(), it may also be panels of rows
// (base/row_panels.h).
struct QuantizedMatrix {
  DType dtype = DType::kQ8_0;
  int64_t out = 0;
  int64_t in = 0;
  const std::byte* data = nullptr;
};

// What makes a product the gate of a GLU.
struct QuantizedUp {
  QuantizedMatrix weight;  // without data, there is no GLU
  GluActivation activation = GluActivation::kSilu;
  StridedRows<float> product;  // [N, out] for x up^T: needed for N <= kDirectVectors alone
};

// y = x W^T, or with `up`, of W's dtype and extents, y = activation(x W^T) (x up^T).
struct QuantizedProduct {
  QuantizedMatrix weight;
  StridedRows<float> y;     // [N, out]
  bool accumulate = false;  // y += instead of y =; not of a GLU
  QuantizedUp up = {};

  bool is_glu() const { return up.weight.data != nullptr; }
};

// Up to this many tokens, a GEMM reads W once for every few tokens and is bound by memory; with
// more, it pays to unpack W for all tokens.
inline constexpr int64_t kGemvTokens = 4;

// Up to so many vectors of 8-bit codes, one or two a token, panels are multiplied without a copy in
// memory (AVX-512 VNNI), and unpacked in registers for every eight vectors. Those of 576
// columns take 28 KB of L1: 48 vectors at once took twice the time of 32.
inline constexpr int64_t kDirectVectors = 32;

// Every block dtype, and f32, f16, bf16 (exact only).
bool supports_quantized(DType dtype);
bool supports_fast(DType dtype);
// Whether the active instruction set has GEMMs for panels of rows, which are faster than rows.
bool takes_panels();
// Whether the processor has the products of bytes and words of AVX-512 VNNI.
bool has_vnni();
// Whether activations in one part of bytes are multiplied faster than words: with VNNI by any codes,
// with AVX2 by codes of up to six bits.
bool multiplies_bytes(DType dtype);
// The form of 16-bit activations that quantized_gemv takes for weights of which some, or none, are in
// panels.
Codes few_token_codes(bool any_panels);

// Bound: memory, the bytes of W at the read bandwidth, for up to about two vectors of codes
// (activations.h). `next` is the weight that is multiplied after these; its first bytes are
// prefetched with the last bytes of these. Without data, no next weight is known.
void quantized_gemv(std::span<const QuantizedProduct> products,
                    const QuantizedActivations& x,
                    const QuantizedMatrix& next = {});

// Bound: 16-bit multiply-adds; W is unpacked once for 160 tokens, in bytes for 256, into a
// panel of 16 rows in L1.
void quantized_gemm(std::span<const QuantizedProduct> products,
                    const QuantizedActivations& x,
                    const QuantizedMatrix& next = {});

void quantized_gemv_exact(std::span<const QuantizedProduct> products,
                          StridedRows<const float> x,
                          int64_t tokens);
void quantized_gemm_exact(std::span<const QuantizedProduct> products,
                          StridedRows<const float> x,
                          int64_t tokens);

}  // namespace ridge::backends::cpu
