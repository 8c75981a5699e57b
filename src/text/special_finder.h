// SPDX-License-Identifier: Apache-2.0
// Finds special tokens in raw text before BPE. Of overlapping tokens the longest wins; of equally
// long ones the leftmost. Ids are only passed through.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::text {

// One occurrence of a special token in the text.
struct SpecialMatch {
  size_t begin;
  size_t size;
  int32_t id;
};

// An Aho-Corasick automaton of the tokens' reversed bytes, run over the text from its end: its
// state after text[at] determines the longest token that begins there, whatever the lengths of the
// tokens.
class SpecialFinder {
 public:
  SpecialFinder() = default;
  // Tokens with their ids. The tokens must be distinct and not empty.
  explicit SpecialFinder(std::vector<std::pair<std::string_view, int32_t>> tokens);

  bool empty() const { return nodes_.empty(); }

  // Disjoint matches from left to right, in time O(text) plus a sort of the matches. Only tokens
  // that are prefixes of one another add to this: each may be tried once at a position where they
  // all match.
  std::vector<SpecialMatch> find(std::string_view text) const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  // A reversed suffix of a token. The root is node 0.
  struct Node {
    uint32_t first_edge = 0;
    uint32_t edges = 0;
    uint32_t fail = 0;       // the node of its longest proper suffix
    uint32_t match = kNone;  // the node of the longest token that is a suffix of it, or itself
    uint32_t size = 0;       // bytes of the token that ends here
    int32_t id = -1;         // its id; -1 if none ends here
  };
  struct Edge {
    uint8_t byte;
    uint32_t node;
  };
  struct Candidate {
    size_t begin;
    uint32_t node;  // a token ends in it
  };

  uint32_t child(uint32_t node, uint8_t byte) const;  // kNone if there is none
  uint32_t next(uint32_t node, uint8_t byte) const;   // the automaton's transition
  void link();
  std::vector<std::vector<Candidate>> candidates(std::string_view text) const;

  std::vector<Node> nodes_;
  std::vector<Edge> edges_;       // the edges of a node are contiguous and sorted
  std::array<bool, 256> ends_{};  // bytes that end a token
  size_t longest_ = 0;
};

}  // namespace ridge::text
