// SPDX-License-Identifier: Apache-2.0
// Arguments of the sample kernel: the logits and the settings that choose each slot's next token.
// The op `sample` defines the rule (ops/sample.cc).
#pragma once

#include <cstddef>
#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

// In the order of the op's settings. 0 turns a setting off.
struct SampleSettings {
  float temperature;
  float top_k;
  float top_p;
  float min_p;
  float repeat_penalty;
  float biases;  // how many
};

// The token of logits that are no distribution: one is NaN or +infinity, or all are -infinity.
inline constexpr int32_t kNoToken = -1;

struct Sample {
  int64_t rows = 0;                          // N
  int64_t vocabulary = 0;                    // V
  int64_t recent_tokens = 0;                 // R
  int64_t most_biases = 0;                   // A
  StridedRows<const float> logits;           // [N, V]
  const int32_t* row_slots = nullptr;        // [N], -1: the row is skipped; null: row n is slot n's
  int32_t* tokens = nullptr;                 // [S]; kNoToken if there is none to choose
  int32_t* recent = nullptr;                 // [S, R]
  const int32_t* next_positions = nullptr;   // [S]; -1: the slot is skipped
  const SampleSettings* settings = nullptr;  // [S]
  const int32_t* seeds = nullptr;            // [S]
  const int32_t* biased = nullptr;           // [S, A]; a slot's ids in ascending order
  const float* biases = nullptr;             // [S, A]
  std::byte* workspace = nullptr;            // the backend's sample_workspace_bytes
};

}  // namespace ridge::backends
