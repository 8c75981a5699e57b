// SPDX-License-Identifier: Apache-2.0
// Counts how often each pre-token piece occurs in a corpus: the first half of BPE training. Keeps
// the pieces, not the text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "text/pretokenizer.h"
#include "text/special_finder.h"

namespace ridge::text {

struct CountedPiece {
  std::string_view bytes;
  int64_t count;
};

// A hash table of pieces; all strings are stored in one block.
class PieceTable {
 public:
  PieceTable() : slots_(kSmallest) {}

  void add(std::string_view piece, int64_t count);
  // In the order of first appearance. Valid until the next `add`.
  std::vector<CountedPiece> pieces() const;

 private:
  static constexpr size_t kSmallest = 1024;
  struct StoredPiece {
    uint64_t hash;
    size_t begin;
    size_t size;
    int64_t count;
  };

  void grow();

  std::vector<uint32_t> slots_;  // index of the entry + 1; 0 is free
  std::vector<StoredPiece> entries_;
  std::string bytes_;
};

class PieceCounter {
 public:
  // Pieces never cross a special token. Special tokens themselves are not counted.
  PieceCounter(PreTokenizer pre_tokenizer, const std::vector<std::string>& special_tokens);

  // Counts in parallel. `progress(done_bytes, total_bytes)` is called periodically from one thread
  // and must not throw. No piece crosses from one call to the next.
  void add(std::string_view text, const std::function<void(int64_t, int64_t)>& progress = nullptr);

  const PieceTable& table() const { return table_; }

 private:
  void count(std::string_view text, PieceTable& table) const;
  size_t chunk_end(std::string_view text, size_t at) const;

  PreTokenizer pre_tokenizer_;
  SpecialFinder special_;
  PieceTable table_;
};

}  // namespace ridge::text
