// SPDX-License-Identifier: Apache-2.0
// Chooses the next tokens of slots on CUDA. backends/kernels/sample.h defines the settings.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/ticketed.h"
#include "backends/kernels/sample.h"

namespace ridge::backends::cuda {

// The limit at which one bit per token fits into a block's shared memory.
inline constexpr int64_t kSampleMostVocabulary = int64_t{1} << 20;

int64_t sample_workspace_bytes(int64_t rows, int64_t vocabulary);

// One ticket per row; the vocabulary is at most kSampleMostVocabulary. One launch. Sums are
// computed in integers, in units of 2^-40, or in a fixed order.
cudaError_t launch_sample(const Ticketed<Sample>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
