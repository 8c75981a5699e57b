// SPDX-License-Identifier: Apache-2.0
// What each step of the engine computes, and whom a waiting sequence pushes out, as pure functions.
// They know no model, no clock and no thread.
#pragma once

#include <cstdint>
#include <optional>
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

// What a sequence that runs has of the cache, and wants of it.
struct Holding {
  int64_t priority = 0;
  int64_t owned = 0;   // blocks that nobody else uses
  int64_t wanted = 0;  // blocks that are kept free for it
};

// How many of the running sequences, the last ones first, are pushed out so that one of `priority` finds
// `wanted` free blocks beside those that are kept for the others. Only larger priorities give way, and
// none if that would not be enough. None: the sequence waits.
std::optional<int64_t> count_preempted(std::span<const Holding> running,
                                       int64_t priority,
                                       int64_t wanted,
                                       int64_t available);

}  // namespace ridge::serve
