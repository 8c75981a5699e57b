// SPDX-License-Identifier: Apache-2.0
// Finds special tokens in raw text before BPE sees it: of overlapping ones the longest wins, of
// equally long ones the leftmost. Knows nothing of ids' meaning.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::text {

// One special token where it stands in the text.
struct SpecialMatch {
  size_t begin;
  size_t size;
  int32_t id;
};

class SpecialFinder {
 public:
  SpecialFinder() = default;
  // Tokens with their ids; distinct, not empty.
  explicit SpecialFinder(std::vector<std::pair<std::string_view, int32_t>> tokens);

  bool empty() const { return nodes_.empty(); }

  // Disjoint matches from left to right. Time O(text x longest token) at worst, O(text) where few
  // characters begin a token.
  std::vector<SpecialMatch> find(std::string_view text) const;

 private:
  // A trie; the children of a node stand in one sorted run of edges.
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edges = 0;
    int32_t id = -1;
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };

  // The longest token at text[at] that has at most `limit` bytes; size 0 where there is none.
  SpecialMatch longest(std::string_view text, size_t at, size_t limit) const;
  uint32_t build(std::span<const std::pair<std::string_view, int32_t>> tokens, size_t depth);

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;
  std::array<bool, 256> begins_{};  // bytes that begin a token
  std::vector<std::string> tokens_;
  size_t longest_ = 0;
};

}  // namespace ridge::text
