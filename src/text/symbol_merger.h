// SPDX-License-Identifier: Apache-2.0
// The loop of BPE: of all adjacent symbols that have a merge, joins the two with the lowest
// priority (the leftmost among equals), until none is left. O(n log n) in the number of symbols for
// any text. The caller defines the merges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <string_view>
#include <vector>

#include "text/tokenizer_tables.h"

namespace ridge::text {

// A part of the piece: a token, or a character that has no token (id kNoToken).
struct Symbol {
  int32_t id;
  uint32_t begin;  // byte offset in the piece
  uint32_t size;   // 0 once it has been joined to its left neighbour
};

class SymbolMerger {
 public:
  // Symbols of one piece, in order; fill before `run`, read after it (skip those of size 0).
  std::vector<Symbol>& symbols() { return symbols_; }

  // lookup(left, right) returns a Merge, with result kNoToken if the two do not join.
  template <typename Lookup>
  void run(Lookup&& lookup) {
    if (symbols_.size() < 2) return;
    if (symbols_.size() <= kScanned)
      scan(lookup);
    else
      queue(lookup);
  }

 private:
  // Up to this size, scanning all pairs again is faster than a queue; words are nearly always
  // shorter.
  static constexpr size_t kScanned = 24;
  static constexpr uint32_t kNone = UINT32_MAX;

  template <typename Lookup>
  void scan(Lookup& lookup) {
    size_t n = symbols_.size();
    Merge pairs[kScanned];
    for (size_t i = 0; i + 1 < n; ++i) pairs[i] = lookup(symbols_[i], symbols_[i + 1]);
    while (n > 1) {
      size_t best = n;
      for (size_t i = 0; i + 1 < n; ++i)
        if (pairs[i].result >= 0 && (best == n || pairs[i].priority < pairs[best].priority))
          best = i;
      if (best == n) break;
      symbols_[best].id = pairs[best].result;
      symbols_[best].size += symbols_[best + 1].size;
      for (size_t i = best + 1; i + 1 < n; ++i) symbols_[i] = symbols_[i + 1];
      for (size_t i = best + 1; i + 2 < n; ++i) pairs[i] = pairs[i + 1];
      --n;
      if (best > 0) pairs[best - 1] = lookup(symbols_[best - 1], symbols_[best]);
      if (best + 1 < n) pairs[best] = lookup(symbols_[best], symbols_[best + 1]);
    }
    symbols_.resize(n);
  }

  // A candidate holds its priority and its left symbol in one word. It is stale if the pair that
  // begins there now has another priority or none.
  template <typename Lookup>
  void queue(Lookup& lookup) {
    auto n = static_cast<uint32_t>(symbols_.size());
    links_.resize(n);
    std::vector<uint64_t> heap;
    heap.reserve(n);
    auto candidate = [&](uint32_t left) {
      return (static_cast<uint64_t>(links_[left].pair.priority) << 32) | left;
    };
    for (uint32_t i = 0; i < n; ++i) {
      links_[i] = {i == 0 ? kNone : i - 1, i + 1 == n ? kNone : i + 1, {}};
      if (i + 1 < n) links_[i].pair = lookup(symbols_[i], symbols_[i + 1]);
      if (links_[i].pair.result >= 0) heap.push_back(candidate(i));
    }
    std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>> candidates(
        std::greater<>(), std::move(heap));
    auto renew = [&](uint32_t left) {
      Link& link = links_[left];
      link.pair = link.next == kNone ? Merge{} : lookup(symbols_[left], symbols_[link.next]);
      if (link.pair.result >= 0) candidates.push(candidate(left));
    };
    while (!candidates.empty()) {
      uint64_t top = candidates.top();
      candidates.pop();
      auto left = static_cast<uint32_t>(top);
      Link& link = links_[left];
      if (link.pair.result < 0 || link.pair.priority != top >> 32) continue;
      uint32_t right = link.next;
      symbols_[left].id = link.pair.result;
      symbols_[left].size += symbols_[right].size;
      symbols_[right].size = 0;
      links_[right].pair = {};
      link.next = links_[right].next;
      if (link.next != kNone) links_[link.next].previous = left;
      renew(left);
      if (link.previous != kNone) renew(link.previous);
    }
  }

  struct Link {
    uint32_t previous;
    uint32_t next;
    Merge pair;  // it joins this symbol and the next
  };

  std::vector<Symbol> symbols_;
  std::vector<Link> links_;
};

}  // namespace ridge::text
