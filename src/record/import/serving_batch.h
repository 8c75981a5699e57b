// SPDX-License-Identifier: Apache-2.0
// The batch of a step of a server, as vLLM and SGLang write it into the step's annotation.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge::record {

struct ServingBatch {
  int64_t contexts = 0,
          generations = 0;  // sequences whose prompt, or whose next token, is computed
  int64_t context_tokens = 0;
  int64_t tokens() const { return context_tokens + generations; }
  // Sums over the sequences: keys, and pairs of a query and a key; -1 if they are not recorded.
  int64_t keys = -1, pairs = -1;
};

// "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk55086sqsq32sqsk55086)",
// "execute_context_1(512)_generation_8(8)", "step[EXTEND bs=15 toks=15360]", "step[DECODE bs=8]".
// Nothing for other names.
std::optional<ServingBatch> serving_batch(std::string_view annotation);

// The tokens that a graph is captured for, of "capture_32_FULL".
std::optional<int64_t> captured_tokens(std::string_view annotation);

}  // namespace ridge::record
