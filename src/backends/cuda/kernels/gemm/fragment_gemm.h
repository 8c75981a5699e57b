// SPDX-License-Identifier: Apache-2.0
// Products of bf16 activations and a quantized weight in fragment tiles (base/fragment_tiles.h), on
// CUDA: for some tens of rows of x the weight is dequantized in registers, and read once on Hopper,
// elsewhere again for every 16 rows; for more rows it is unpacked to bf16 first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cuda/kernels/gemm/skinny_gemm.h"
#include "backends/cuda/kernels/watched.h"

namespace ridge::backends::cuda {

enum class FragmentFormat : uint8_t {
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ4_G32,
  kQ4_G128,
};

// A product whose weight is in fragment tiles: `product.weight` is absent, and there may be up to
// kFragmentGemmMostTokens rows, normed ones as in skinny_gemm.h.
struct FragmentGemm {
  SkinnyGemm product;               // D is a multiple of 256, F of 8; with an activation, F of 16
  const uint8_t* weight = nullptr;  // [F / 8, D / 256] tiles
  FragmentFormat format = FragmentFormat::kQ4_K;
  std::byte* workspace = nullptr;  // fragment_gemm_workspace_bytes, aligned to 256
};

// More rows are unpacked, and from 65 on where the kernel for Hopper does not run: on an H200 the
// products of a layer of Llama-2-7B's shape in Q4_K take 83 us for 32 rows and 112 for 64, unpacked
// 278 and 296.
inline constexpr int64_t kFragmentGemmMostTokens = 128;

// Whether the current GPU and the kernel support the product's sizes.
bool takes_fragment_gemm(const FragmentGemm& call);

// The launches of a supported product: two on Hopper for 17 to 64 rows, else one for every 16 or
// for as many as fit into shared memory.
int fragment_gemm_launches(const FragmentGemm& call);
int64_t fragment_gemm_workspace_bytes(const FragmentGemm& call);

// Each launch may start while the previous one ends; sums in a fixed order.
cudaError_t launch_fragment_gemm(const FragmentGemm& call, cudaStream_t stream);

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
