// SPDX-License-Identifier: Apache-2.0
// Trains a byte-level BPE vocabulary by repeatedly making the most frequent pair of adjacent tokens
// a token. Takes text and returns a TokenizerSpec; no files are involved.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/piece_counter.h"
#include "text/tokenizer_spec.h"

namespace ridge::text {

// How often two tokens, spelled as in the vocabulary, stand side by side.
struct PairCount {
  std::string left, right;
  int64_t count = 0;
};

inline constexpr int64_t kMostToldPairs = 12;

struct BpeTrainerOptions {
  int32_t vocab_size = 0;  // special tokens + 256 bytes + merges; at least the first two
  // Control tokens, with ids from 0; no merge crosses them.
  std::vector<std::string> special_tokens = {};
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  // Called periodically while merging; must not throw; may be empty.
  std::function<void(int64_t tokens_made, int64_t tokens_wanted)> progress = nullptr;
  // Called before each merge and after the last one with the most frequent pairs, at most
  // kMostToldPairs, the next to merge first, and with the number of all. May be empty.
  std::function<void(const std::vector<PairCount>& pairs, int64_t all)> pairs = nullptr;
};

class BpeTrainer {
 public:
  // Throws usage_error if the vocabulary is too small or too large, or if a special token is empty,
  // repeated, too long or equal to a byte's token.
  explicit BpeTrainer(BpeTrainerOptions options);

  // Pre-tokenizes and counts on all threads. May be called any number of times, with whole
  // documents: no piece crosses from one call to the next.
  void add_text(std::string_view text,
                const std::function<void(int64_t, int64_t)>& progress = nullptr);

  // Merges the most frequent pair first; ties go to the pair whose tokens' bytes are
  // lexicographically greater (left first). Makes fewer merges if no pair is left. Ids: special
  // tokens, the bytes in GPT-2's order, merges. The result is the same for every number of threads.
  TokenizerSpec train() const;

 private:
  BpeTrainerOptions options_;
  PieceCounter counter_;
};

}  // namespace ridge::text
