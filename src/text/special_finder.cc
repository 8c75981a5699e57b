// SPDX-License-Identifier: Apache-2.0
// Candidates are in one list per length, processed from the longest. A candidate that overlaps an
// accepted match on its right is tried again with the longest token that fits before that match.
#include "text/special_finder.h"

#include <algorithm>
#include <bit>
#include <string>

namespace ridge::text {
namespace {

// The bytes of the text that belong to an accepted match.
class TakenBytes {
 public:
  explicit TakenBytes(size_t size) : words_(size / 64 + 1) {}
  bool at(size_t index) const { return (words_[index / 64] >> (index % 64) & 1) != 0; }
  void take(size_t begin, size_t size) {
    for (size_t i = begin; i < begin + size; ++i) words_[i / 64] |= uint64_t{1} << (i % 64);
  }
  // The first taken byte at or after `begin`, which must exist.
  size_t first_from(size_t begin) const {
    size_t word = begin / 64;
    uint64_t bits = words_[word] >> (begin % 64) << (begin % 64);
    while (bits == 0) bits = words_[++word];
    return word * 64 + static_cast<size_t>(std::countr_zero(bits));
  }

 private:
  std::vector<uint64_t> words_;
};

}  // namespace

// Inserts the reversed tokens in sorted order. Each one adds the nodes beyond the prefix that it
// shares with the previous one, so the children of a node are made in the order of their bytes.
SpecialFinder::SpecialFinder(std::vector<std::pair<std::string_view, int32_t>> tokens) {
  if (tokens.empty()) return;
  std::vector<std::pair<std::string, int32_t>> reversed;
  for (const auto& [text, id] : tokens)
    reversed.emplace_back(std::string(text.rbegin(), text.rend()), id);
  std::sort(reversed.begin(), reversed.end());
  struct Made {
    uint32_t parent;
    uint8_t byte;
  };
  std::vector<Made> made = {{0, 0}};  // per node; the root's is unused
  nodes_.emplace_back();
  std::vector<uint32_t> path = {0};  // nodes of the previous token, by depth
  std::string_view before;
  for (const auto& [text, id] : reversed) {
    const auto differ = std::mismatch(text.begin(), text.end(), before.begin(), before.end());
    path.resize(static_cast<size_t>(differ.first - text.begin()) + 1);
    for (size_t depth = path.size() - 1; depth < text.size(); ++depth) {
      made.push_back({path.back(), static_cast<uint8_t>(text[depth])});
      path.push_back(static_cast<uint32_t>(nodes_.size()));
      nodes_.emplace_back();
    }
    nodes_[path.back()].id = id;
    nodes_[path.back()].size = static_cast<uint32_t>(text.size());
    longest_ = std::max(longest_, text.size());
    ends_[static_cast<uint8_t>(text[0])] = true;
    before = text;
  }
  for (size_t i = 1; i < made.size(); ++i) ++nodes_[made[i].parent].edges;
  uint32_t edges = 0;
  for (Node& node : nodes_) node.first_edge = std::exchange(edges, edges + node.edges);
  edges_.resize(edges);
  std::vector<uint32_t> filled(nodes_.size());
  for (size_t i = 1; i < made.size(); ++i) {
    const uint32_t parent = made[i].parent;
    edges_[nodes_[parent].first_edge + filled[parent]++] = {made[i].byte, static_cast<uint32_t>(i)};
  }
  link();
}

uint32_t SpecialFinder::child(uint32_t node, uint8_t byte) const {
  const Edge* first = edges_.data() + nodes_[node].first_edge;
  const Edge* last = first + nodes_[node].edges;
  const Edge* edge =
      std::lower_bound(first, last, byte, [](const Edge& e, uint8_t b) { return e.byte < b; });
  return edge == last || edge->byte != byte ? kNone : edge->node;
}

uint32_t SpecialFinder::next(uint32_t node, uint8_t byte) const {
  for (;; node = nodes_[node].fail) {
    if (const uint32_t to = child(node, byte); to != kNone) return to;
    if (node == 0) return 0;
  }
}

// Sets the fail and match links, breadth first, so that the suffixes of a node are linked before
// it.
void SpecialFinder::link() {
  std::vector<uint32_t> queue = {0};
  for (size_t at = 0; at < queue.size(); ++at) {
    const uint32_t parent = queue[at];
    for (uint32_t i = 0; i < nodes_[parent].edges; ++i) {
      const Edge& edge = edges_[nodes_[parent].first_edge + i];
      Node& node = nodes_[edge.node];
      node.fail = parent == 0 ? 0 : next(nodes_[parent].fail, edge.byte);
      node.match = node.id >= 0 ? edge.node : nodes_[node.fail].match;
      queue.push_back(edge.node);
    }
  }
}

// The longest token that begins at each position, by its length and from left to right.
std::vector<std::vector<SpecialFinder::Candidate>> SpecialFinder::candidates(
    std::string_view text) const {
  std::vector<std::vector<Candidate>> by_size(longest_ + 1);
  uint32_t state = 0;
  for (size_t at = text.size(); at-- > 0;) {
    const auto byte = static_cast<uint8_t>(text[at]);
    if (state == 0 && !ends_[byte]) continue;
    state = next(state, byte);
    const uint32_t match = nodes_[state].match;
    if (match != kNone) by_size[nodes_[match].size].push_back({at, match});
  }
  for (std::vector<Candidate>& each : by_size) std::reverse(each.begin(), each.end());
  return by_size;
}

std::vector<SpecialMatch> SpecialFinder::find(std::string_view text) const {
  std::vector<SpecialMatch> accepted;
  if (empty()) return accepted;
  std::vector<std::vector<Candidate>> by_size = candidates(text);
  TakenBytes taken(text.size());
  auto left_first = [](const auto& a, const auto& b) { return a.begin < b.begin; };
  for (size_t size = longest_; size > 0; --size) {
    std::vector<Candidate>& of_size = by_size[size];
    if (!std::is_sorted(of_size.begin(), of_size.end(), left_first))
      std::sort(of_size.begin(), of_size.end(), left_first);
    for (const Candidate& candidate : of_size) {
      if (taken.at(candidate.begin)) continue;
      // Accepted matches are at least as long, so none is strictly inside this one: checking its
      // ends suffices.
      if (!taken.at(candidate.begin + size - 1)) {
        taken.take(candidate.begin, size);
        accepted.push_back({candidate.begin, size, nodes_[candidate.node].id});
        continue;
      }
      const size_t room = taken.first_from(candidate.begin) - candidate.begin;
      uint32_t shorter = candidate.node;
      while (shorter != kNone && nodes_[shorter].size > room)
        shorter = nodes_[nodes_[shorter].fail].match;
      if (shorter != kNone) by_size[nodes_[shorter].size].push_back({candidate.begin, shorter});
    }
    of_size = {};
  }
  std::sort(accepted.begin(), accepted.end(), left_first);
  return accepted;
}

}  // namespace ridge::text
