// SPDX-License-Identifier: Apache-2.0
// What is added to the logits of single tokens, per slot: the biases of its options, and the
// penalties for tokens that it has generated. Keeps the lists that the op `sample` reads.
#pragma once

#include <cstdint>
#include <vector>

#include "runtime/store.h"
#include "serve/sampling.h"

namespace ridge::serve {

class TokenBiases {
 public:
  TokenBiases(int64_t slots, int64_t vocabulary, runtime::Store& store);

  // A new sequence, which has generated nothing yet. Throws a usage Error for an id out of range.
  void begin(int64_t slot, const SamplingOptions& options);
  // The slot has generated a token. Tokens beyond models::kMostBiases different ones are not
  // counted. Does not allocate.
  void count(int64_t slot, int32_t token);
  // Sends what has changed to the device.
  void write();
  // How many tokens of the slot are biased.
  int64_t size(int64_t slot) const { return std::ssize(of(slot).tokens); }

 private:
  struct Token {
    int32_t id = 0;
    double bias = 0;
    int64_t count = 0;  // how often it was generated
  };
  struct Slot {
    double presence = 0, frequency = 0;
    std::vector<Token> tokens;  // ascending
    bool has_changed = false;
  };
  const Slot& of(int64_t slot) const { return slots_[static_cast<size_t>(slot)]; }
  static Token* at(Slot& slot, int32_t id);

  int64_t vocabulary_;
  runtime::Store& store_;
  std::vector<Slot> slots_;
  std::vector<int32_t> ids_;  // of one slot, as they are sent
  std::vector<float> amounts_;
};

}  // namespace ridge::serve
