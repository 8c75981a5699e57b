// SPDX-License-Identifier: Apache-2.0
// Chooses the next token of each slot. The rule is that of the op `sample` (ops/sample.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/cpu/kernels/rows.h"

namespace ridge::backends::cpu {

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
  int64_t vocabulary = 0;                    // V
  int64_t recent_tokens = 0;                 // R
  Rows<const float> logits;                  // [S, V]
  int32_t* tokens = nullptr;                 // [S]
  int32_t* recent = nullptr;                 // [S, R]
  const int32_t* next_positions = nullptr;   // [S]
  const SampleSettings* settings = nullptr;  // [S]
  const int32_t* seeds = nullptr;            // [S]
  std::byte* workspace = nullptr;
};

int64_t sample_workspace_bytes(int64_t vocabulary);

// Bound: memory, one read of the logits, where a slot is greedy; else the sorting of what may stay.
void sample(const Sample& call);

}  // namespace ridge::backends::cpu
