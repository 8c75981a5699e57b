// SPDX-License-Identifier: Apache-2.0
// Chooses the next token of each slot on CUDA. The rule is that of the op `sample` (ops/sample.cc).
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/rows.h"

namespace ridge::backends::cuda {

// Off at 0; in the order of the op's settings.
struct SampleSettings {
  float temperature;
  float top_k;
  float top_p;
  float min_p;
  float repeat_penalty;
};

struct Sample {
  int64_t slots = 0;                         // S
  int64_t vocabulary = 0;                    // V, at most kSampleMostVocabulary
  int64_t recent_tokens = 0;                 // R
  Rows<const float> logits;                  // [S, V]
  int32_t* tokens = nullptr;                 // [S]
  int32_t* recent = nullptr;                 // [S, R]
  const int32_t* next_positions = nullptr;   // [S]; -1: the slot is left alone
  const SampleSettings* settings = nullptr;  // [S]
  const int32_t* seeds = nullptr;            // [S]
  uint64_t* workspace = nullptr;             // sample_workspace_bytes
  int32_t* tickets = nullptr;                // S zeros, which are zeros again afterwards
};

// A bit for each token fits into a block's shared memory.
inline constexpr int64_t kSampleMostVocabulary = int64_t{1} << 20;

int64_t sample_workspace_bytes(int64_t slots, int64_t vocabulary);

// One launch. Sums are taken in whole numbers of 2^-40 or in a fixed order.
cudaError_t launch_sample(const Sample& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
