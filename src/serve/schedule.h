// SPDX-License-Identifier: Apache-2.0
// The choices of the engine as pure functions: which slot a request gets, and what each step
// computes. They know no model, no clock and no thread.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace ridge::serve {

// A slot that no sequence uses, seen from the next prompt.
struct FreeSlot {
  int64_t slot = 0;
  int64_t length = 0;     // positions that it still has of its last sequence
  int64_t held = 0;       // how many of them the prompt can use
  int64_t last_used = 0;  // grows with time; 0: never
};

// The index in `free` of the slot that the prompt gets: the one that saves most, if the prompt keeps
// at least half of it, so that a short common start does not cost a long conversation its place;
// else the one that was left alone longest. `free` is not empty.
size_t choose_slot(std::span<const FreeSlot> free);

// A sequence that has a slot.
struct Running {
  int64_t pending = 1;   // ids that are known and not computed: of its prompt, or its last token
  bool decodes = false;  // its prompt is computed
};

struct StepLimits {
  int64_t chunk = 512;        // ids of one sequence in a step, and of a step in which none decodes
  int64_t step_tokens = 128;  // ids of a step in which a sequence decodes, if there is a choice
};

// How many pending ids of each sequence the next step computes; `running` is in order of admission.
// All that decode advance by their token; then prompts advance, first come, first served, within
// the limits, but by one id at least. So a prompt of any length delays a decoding sequence by one
// step of step_tokens, and decoding sequences never stop a prompt.
std::vector<int64_t> choose_step(std::span<const Running> running, const StepLimits& limits);

}  // namespace ridge::serve
