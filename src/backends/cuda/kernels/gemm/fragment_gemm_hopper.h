// SPDX-License-Identifier: Apache-2.0
// Some tens of rows of bf16 times a quantized weight in fragment tiles, for Hopper only: the weight
// is read once.
#pragma once

#include "backends/cuda/kernels/gemm/fragment_gemm.h"

namespace ridge::backends::cuda {

inline constexpr int64_t kFragmentGemmHopperTokens = 64;

// Whether the current GPU and the kernel support the sizes of a product, which may have to be cut
// into kFragmentGemmHopperTokens tokens each.
bool takes_fragment_gemm_hopper(const FragmentGemm& call);

// Bytes of the workspace.
int64_t fragment_gemm_hopper_bytes(const FragmentGemm& call);

// Two launches, which may start while the previous one ends; sums in a fixed order.
cudaError_t launch_fragment_gemm_hopper(const FragmentGemm& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
