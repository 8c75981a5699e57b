// SPDX-License-Identifier: Apache-2.0
// Candidates stand in one list per length, worked off from the longest. A candidate that meets a
// taken place on its right is tried again with the longest token that still fits before it.
#include "text/special_finder.h"

#include <algorithm>

namespace ridge::text {

SpecialFinder::SpecialFinder(std::vector<std::pair<std::string_view, int32_t>> tokens) {
  if (tokens.empty()) return;
  std::sort(tokens.begin(), tokens.end());
  for (const auto& [text, id] : tokens) {
    begins_[static_cast<uint8_t>(text[0])] = true;
    longest_ = std::max(longest_, text.size());
    tokens_.emplace_back(text);
  }
  build(tokens, 0);
}

// Sorted tokens that share their first `depth` bytes
// become one node and, by their next byte, its children.
uint32_t SpecialFinder::build(std::span<const std::pair<std::string_view, int32_t>> tokens,
                              size_t depth) {
  auto node = static_cast<uint32_t>(nodes_.size());
  nodes_.emplace_back();
  if (tokens.front().first.size() == depth) {
    nodes_[node].id = tokens.front().second;
    tokens = tokens.subspan(1);
  }
  auto byte = [&](size_t i) { return static_cast<uint8_t>(tokens[i].first[depth]); };
  std::vector<Edge> children;
  for (size_t begin = 0; begin < tokens.size();) {
    size_t end = begin + 1;
    while (end < tokens.size() && byte(end) == byte(begin)) ++end;
    children.push_back({byte(begin), build(tokens.subspan(begin, end - begin), depth + 1)});
    begin = end;
  }
  nodes_[node].first_edge = static_cast<uint32_t>(edges_.size());
  nodes_[node].edges = static_cast<uint32_t>(children.size());
  edges_.insert(edges_.end(), children.begin(), children.end());
  return node;
}

SpecialMatch SpecialFinder::longest(std::string_view text, size_t at, size_t limit) const {
  SpecialMatch best{at, 0, -1};
  uint32_t node = 0;
  size_t end = std::min(text.size() - at, limit);
  for (size_t i = 0; i < end; ++i) {
    auto byte = static_cast<uint8_t>(text[at + i]);
    const Edge* first = edges_.data() + nodes_[node].first_edge;
    const Edge* last = first + nodes_[node].edges;
    const Edge* edge = std::lower_bound(
        first, last, byte, [](const Edge& e, uint8_t wanted) { return e.byte < wanted; });
    if (edge == last || edge->byte != byte) break;
    node = edge->node;
    if (nodes_[node].id >= 0) best = {at, i + 1, nodes_[node].id};
  }
  return best;
}

std::vector<SpecialMatch> SpecialFinder::find(std::string_view text) const {
  std::vector<SpecialMatch> accepted;
  if (empty()) return accepted;
  std::vector<std::vector<SpecialMatch>> by_size(longest_ + 1);
  bool any = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (!begins_[static_cast<uint8_t>(text[at])]) continue;
    SpecialMatch match = longest(text, at, longest_);
    if (match.size == 0) continue;
    by_size[match.size].push_back(match);
    any = true;
  }
  if (!any) return accepted;

  std::vector<bool> taken(text.size());
  for (size_t size = longest_; size > 0; --size) {
    std::vector<SpecialMatch>& candidates = by_size[size];
    auto left_first = [](const SpecialMatch& a, const SpecialMatch& b) {
      return a.begin < b.begin;
    };
    if (!std::is_sorted(candidates.begin(), candidates.end(), left_first))
      std::sort(candidates.begin(), candidates.end(), left_first);
    for (const SpecialMatch& match : candidates) {
      if (taken[match.begin]) continue;
      // What was accepted so far is at least as long, so
      // it cannot lie strictly inside: the ends tell all.
      if (!taken[match.begin + size - 1]) {
        std::fill_n(taken.begin() + static_cast<int64_t>(match.begin), size, true);
        accepted.push_back(match);
        continue;
      }
      size_t gap = 1;
      while (!taken[match.begin + gap]) ++gap;
      SpecialMatch shorter = longest(text, match.begin, gap);
      if (shorter.size > 0) by_size[shorter.size].push_back(shorter);
    }
  }
  std::sort(accepted.begin(), accepted.end(),
            [](const SpecialMatch& a, const SpecialMatch& b) { return a.begin < b.begin; });
  return accepted;
}

}  // namespace ridge::text
