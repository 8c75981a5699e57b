// SPDX-License-Identifier: Apache-2.0
// The GEMMs of the demo gemm-ladder: short kernels that are meant to be read, each with one idea
// more than the one before. Matrices are dense rows: c [n, m] = a [n, k] b [k, m]. T is float or
// uint16_t (bf16); sums are fp32.
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"

namespace ridge::courses {

enum class LadderKernel : int8_t { kNaive, kCoalesced, kSharedTiles, kRegisterTiles, kTensorCores };

template <typename T>
struct LadderGemm {
  LadderKernel kernel = LadderKernel::kNaive;
  int64_t n = 0, k = 0, m = 0;
  const T* a = nullptr;
  const T* b = nullptr;
  T* c = nullptr;
};

// Rows and columns of the largest grid.
inline constexpr int64_t kLadderMost = int64_t{1} << 20;

// kTensorCores takes bf16 only. One launch.
template <typename T>
cudaError_t launch_ladder(const LadderGemm<T>& call, cudaStream_t stream);
cudaError_t launch_ladder_on_tensor_cores(const LadderGemm<uint16_t>& call, cudaStream_t stream);

}  // namespace ridge::courses
