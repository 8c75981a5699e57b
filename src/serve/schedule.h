// SPDX-License-Identifier: Apache-2.0
// Pure functions that choose what each engine step computes and which sequences a waiting one
// preempts. They know no model, no clock and no thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace ridge::serve {

// A sequence that has a slot.
struct Running {
  int64_t pending = 1;   // ids to compute: the rest of the prompt, or the last token
  bool decodes = false;  // Only its last generated token is pending.
};

struct StepLimits {
  int64_t chunk = 512;  // most ids of one sequence in a step, and of a step in which none decodes
  int64_t max_batched_tokens = 128;  // most ids of a step in which a sequence decodes
};

// Returns how many pending ids of each sequence the next step computes. `running` is sorted by
// urgency. All decoding sequences advance by their token, even beyond the limit. Prompts then
// advance in this order within the limits, the first one by at least one id. So a long prompt
// delays decoding by one such step at a time, and decoding never stops a prompt.
std::vector<int64_t> choose_step(std::span<const Running> running, const StepLimits& limits);

// The KV-cache blocks of a running sequence.
struct BlockUse {
  bool yields = false;  // The waiting sequence may preempt it.
  int64_t owned = 0;    // blocks that no other sequence uses
  int64_t wanted = 0;   // free blocks that are reserved for it
};

// Returns how many running sequences, the last ones first, a waiting one preempts to get `wanted`
// free blocks in addition to those reserved for the others. It preempts only those that yield, up
// to the first that does not. Returns nullopt if that does not free enough blocks, and it waits.
std::optional<int64_t> count_preempted(std::span<const BlockUse> running,
                                       int64_t wanted,
                                       int64_t available);

}  // namespace ridge::serve
