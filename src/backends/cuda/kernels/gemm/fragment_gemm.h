// SPDX-License-Identifier: Apache-2.0
// Products of bf16 activations and a quantized weight in fragment tiles (base/fragment_tiles.h), on
// CUDA: the weight is dequantized in registers. Tiles of more than some tens of rows are unpacked
// to bf16 first.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gemm/skinny_gemm.h"
#include "backends/cuda/kernels/watched.h"

namespace ridge::backends::cuda {

enum class FragmentFormat : uint8_t { kQ4_K, kQ6_K };

// A skinny product whose weight is in fragment tiles: `product.weight` is absent.
struct FragmentGemm {
  SkinnyGemm product;               // D is a multiple of 256, F of 8; with an activation, F of 16
  const uint8_t* weight = nullptr;  // [F / 8, D / 256] tiles
  FragmentFormat format = FragmentFormat::kQ4_K;
};

// At most kSkinnyGemmMostTokens rows. One launch, which may start while the previous one ends; no
// workspace; sums in a fixed order.
cudaError_t launch_fragment_gemv(const FragmentGemm& call, cudaStream_t stream);

// With more, slices unpacked to bf16 are faster: on an H200 a layer of Llama-2-7B's shape takes
// 102 us for 16 tokens, 148 for 32 and 343 for 64, and unpacking takes 145.
inline constexpr int64_t kStreamedFragmentsMostTokens = 32;

// Whether the current GPU and launch_streamed_fragments support the product: compute capability
// 9.0, no norms and no residual, rows of x at multiples of 16 bytes, of y at multiples of four
// elements.
bool takes_streamed_fragments(const FragmentGemm& call);

// Up to kStreamedFragmentsMostTokens rows. One launch, which may start while the previous one ends;
// no workspace; sums in a fixed order.
cudaError_t launch_streamed_fragments(const FragmentGemm& call, cudaStream_t stream);

struct UnpackedFragments {
  int64_t rows = 0;  // a multiple of 8
  int64_t in = 0;
  const uint8_t* weight = nullptr;  // [rows / 8, in / 256] tiles
  FragmentFormat format = FragmentFormat::kQ4_K;
  uint16_t* to = nullptr;  // bf16 [rows, in]
};

// Dequantizes and rounds to bf16. One launch.
cudaError_t launch_unpack_fragments(const UnpackedFragments& call, cudaStream_t stream);

// Rows of an embedding table in fragment tiles.
template <typename T>
struct FragmentEmbedding {
  int64_t tokens = 0, width = 0, vocabulary = 0;
  const uint8_t* table = nullptr;
  FragmentFormat format = FragmentFormat::kQ4_K;
  const int32_t* ids = nullptr;  // [N]
  StridedRows<T> y;              // [N, width]; float or uint16_t (bf16)
};

// Ids are checked per token. One launch.
template <typename T>
cudaError_t launch_fragment_embedding(const Watched<FragmentEmbedding<T>>& call,
                                      cudaStream_t stream);

}  // namespace ridge::backends::cuda
