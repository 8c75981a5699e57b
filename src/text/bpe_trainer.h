// SPDX-License-Identifier: Apache-2.0
// Trains a byte-level BPE vocabulary: the most frequent pair of neighbours becomes a token, again
// and again. No files: text comes in, a TokenizerSpec comes out.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/piece_counter.h"
#include "text/tokenizer_spec.h"

namespace ridge::text {

struct BpeTrainerOptions {
  int32_t vocab_size = 0;  // special tokens + 256 bytes + merges; at least the first two
  // Control tokens, ids 0 and up; no merge reaches over them.
  std::vector<std::string> special_tokens = {};
  PreTokenizer pre_tokenizer = PreTokenizer::kGpt2;
  // Called now and then while merging; must not throw; may be empty.
  std::function<void(int64_t tokens_made, int64_t tokens_wanted)> progress = nullptr;
};

class BpeTrainer {
 public:
  // usage_error where the vocabulary is too small or too large, a special token is empty, repeated,
  // too long or equal to a byte's token.
  explicit BpeTrainer(BpeTrainerOptions options);

  // Pre-tokenizes and counts, on all threads. May be
  // called any number of times; a document stays whole.
  void add_text(std::string_view text,
                const std::function<void(int64_t, int64_t)>& progress = nullptr);

  // Merges by count, ties to the pair whose tokens' bytes are lexicographically greater (left
  // first). Fewer merges than wanted where no pair is left. Ids: special tokens, the bytes in
  // GPT-2's order, merges. The same for every number of threads.
  TokenizerSpec train() const;

 private:
  BpeTrainerOptions options_;
  PieceCounter counter_;
};

}  // namespace ridge::text
