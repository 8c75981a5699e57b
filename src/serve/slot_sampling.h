// SPDX-License-Identifier: Apache-2.0
// The state of the op `sample` for each slot: it reads the options, seed, recent tokens and biases
// of a sequence and writes its next token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "runtime/store.h"
#include "serve/sampling.h"
#include "serve/token_biases.h"

namespace ridge::serve {

// The tokens that a run samples, on their way to the host.
struct SampledTokens {
  std::unique_ptr<backends::CopyOut> copy;  // null if `tokens` has them
  std::vector<int32_t> tokens;              // by slot
};

class SlotSampling {
 public:
  SlotSampling(int64_t slots, int64_t vocabulary, runtime::Store& store);

  // Begins a sequence in a slot. Penalties count its last `generated` ids. Throws a usage Error for
  // a bias of an id out of range.
  void begin(int64_t slot,
             const SamplingOptions& options,
             std::span<const int32_t> ids,
             int64_t generated);
  // Writes what the next run reads, with the position of each slot's next token; -1: none.
  void write(std::span<const int32_t> next_positions);
  // Starts to read the tokens of the last run.
  SampledTokens start_read() const;
  // Waits for the tokens of a run, or reads those of the last one.
  void finish_read(SampledTokens sampled);
  void read();
  // The token of a slot that was read last, -1 if its logits were NaN or infinite.
  const int32_t& token(int64_t slot) const { return tokens_[static_cast<size_t>(slot)]; }
  // Returns it and counts it for the penalties of its sequence.
  int32_t take(int64_t slot);
  // Whether the tokens of the slot's sequence change its logits, so that the next run needs them on
  // the host.
  bool counts_tokens(int64_t slot) const { return biases_.counts_tokens(slot); }

 private:
  runtime::Store& store_;
  TokenBiases biases_;
  std::vector<int32_t> seeds_, tokens_;  // [S]
  std::vector<float> settings_;          // [S, kSamplingSettings]
};

}  // namespace ridge::serve
