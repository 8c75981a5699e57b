// SPDX-License-Identifier: Apache-2.0
// GEMMs with weights that stay in GGUF's blocks: y[N, out] = x[N, in] W^T, with W [out, in] as in
// the file. base/block_formats.h defines the formats, activations.h the rounding of x.
//
// choose.h says which function, which form of x and which kernel a weight takes:
//   quantized_gemv, quantized_gemm              x rounded by quantize_activations, once for all
//                                               GEMMs that read it; the integer sums are exact.
//   quantized_gemm_tiles (tiles.h)              x and W rounded to bf16.
//   quantized_gemv_exact, quantized_gemm_exact  x and sums in fp32.
// All accept any N.
//
// A call takes several GEMMs with the same x (q, k and v), of any mix of dtypes, or one GLU (gate
// and up; fast mode alone), and splits their rows of W over the threads in one parallel region.
// Each output is one sum whose order is fixed by the shape and the instruction set. Its bits
// depend neither on the thread count, nor on N, nor on the other GEMMs of the call; quantized_gemv
// and quantized_gemm may differ in the last bits.
//
// Weights in 2 MiB pages are read faster than in the 4 KiB pages of a mapped file: 30 GB/s against
// 19 on one core, 33 against 25 on two.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/quantized/activations.h"
#include "backends/cpu/kernels/quantized/choose.h"
#include "backends/kernels/glu.h"
#include "backends/kernels/strided_rows.h"
#include "base/dtype.h"

namespace ridge::backends::cpu {

// [out, in] with dense rows; `in` is whole blocks, and data has the alignment of its elements or
// blocks (2, for f32 4). Rounded activations may also multiply repacked tiles
// (base/repacked_tiles.h).
struct QuantizedMatrix {
  DType dtype = DType::kQ8_0;
  int64_t out = 0;
  int64_t in = 0;
  const std::byte* data = nullptr;
};

// A product with this is the gate of a GLU.
struct QuantizedUp {
  QuantizedMatrix weight;  // without data, there is no GLU
  GluActivation activation = GluActivation::kSilu;
  StridedRows<float> product;  // [N, out] for x up^T: needed by quantized_gemv alone
};

// y = x W^T, or with `up`, of W's dtype and extents, y = activation(x W^T) (x up^T).
struct QuantizedProduct {
  QuantizedMatrix weight;
  StridedRows<float> y;     // [N, out]
  bool accumulate = false;  // y += instead of y =; not with a GLU
  QuantizedUp up = {};
  const QuantizedKernel* kernel = nullptr;  // as choose() returned it; needed for rounded x

  bool is_glu() const { return up.weight.data != nullptr; }
};

// Bound: memory, the bytes of W at the read bandwidth, for up to about two vectors of quants
// (activations.h). `next` is the weight that is multiplied after these; its first bytes are
// prefetched with the last bytes of these. Without data, no next weight is known.
void quantized_gemv(std::span<const QuantizedProduct> products,
                    const QuantizedActivations& x,
                    const QuantizedMatrix& next = {});

// Bound: int16 multiply-adds; W is unpacked 16 rows at a time in L1, once for a block of
// tokens.
void quantized_gemm(std::span<const QuantizedProduct> products, const QuantizedActivations& x);

void quantized_gemv_exact(std::span<const QuantizedProduct> products,
                          StridedRows<const float> x,
                          int64_t tokens);
void quantized_gemm_exact(std::span<const QuantizedProduct> products,
                          StridedRows<const float> x,
                          int64_t tokens);

}  // namespace ridge::backends::cpu
