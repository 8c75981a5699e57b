// SPDX-License-Identifier: Apache-2.0
// What each step of the engine computes, as a pure function. It knows no model, no clock and no
// thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::serve {

// A sequence that has a slot.
struct Running {
  int64_t pending = 1;   // ids that are known and not computed: of its prompt, or its last token
  bool decodes = false;  // all but its last token is computed
};

struct StepLimits {
  int64_t chunk = 512;        // ids of one sequence in a step, and of a step in which none decodes
  int64_t step_tokens = 128;  // ids of a step in which a sequence decodes, if there is a choice
};

// How many pending ids of each sequence the next step computes; `running` is in the order in which
// they are served. All that decode advance by their token; then prompts advance in this order, within
// the limits, but by one id at least. So a prompt of any length delays a decoding sequence by one
// step of step_tokens, and decoding sequences never stop a prompt.
std::vector<int64_t> choose_step(std::span<const Running> running, const StepLimits& limits);

}  // namespace ridge::serve
