// SPDX-License-Identifier: Apache-2.0
// The biases that are added to the logits of single tokens: for each slot the logit biases of its
// options, and the penalties for its generated tokens. Keeps the lists that the op `sample` reads.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/store.h"
#include "serve/sampling.h"

namespace ridge::serve {

class TokenBiases {
 public:
  TokenBiases(int64_t slots, int64_t vocabulary, runtime::Store& store);

  // Begins a sequence that has generated nothing yet. Throws a usage Error for an id out of range.
  void begin(int64_t slot, const SamplingOptions& options);
  // Counts a generated token, up to models::kMostBiases different ones. Does not allocate.
  void count(int64_t slot, int32_t token);
  // Whether `count` changes the slot's biases.
  bool counts_tokens(int64_t slot) const {
    return of(slot).presence != 0 || of(slot).frequency != 0;
  }
  // Sends the changed lists to the device.
  void write();
  // The number of biased tokens of the slot.
  int64_t size(int64_t slot) const { return std::ssize(of(slot).tokens); }

 private:
  struct TokenBias {
    int32_t id = 0;
    double bias = 0;
    int64_t count = 0;  // number of times that it was generated
  };
  struct SlotBiases {
    double presence = 0, frequency = 0;
    std::vector<TokenBias> tokens;  // sorted by id
    bool has_changed = false;
  };
  const SlotBiases& of(int64_t slot) const { return slots_[static_cast<size_t>(slot)]; }
  static TokenBias* at(SlotBiases& slot, int32_t id);

  int64_t vocabulary_;
  runtime::Store& store_;
  std::vector<SlotBiases> slots_;
  std::vector<int32_t> ids_;  // one slot's list in the form that is sent
  std::vector<float> amounts_;
};

}  // namespace ridge::serve
