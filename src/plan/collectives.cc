// SPDX-License-Identifier: Apache-2.0
// Lists collectives and compares the lists of ranks line by line.
#include "plan/collectives.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/split.h"

namespace ridge::plan {

void append_collectives(const std::string& name,
                        const Graph& graph,
                        std::vector<Collective>& collectives) {
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (!is_collective(node)) continue;
    Collective& made = collectives.emplace_back();
    made.graph = name;
    made.node = static_cast<NodeId>(i);
    made.op = node.op->name;
    made.scope = node.scope;
    made.phase = ridge::name(node.phase);
    made.group = node.attrs.text("group");
    made.ranks = node.attrs.integer("ranks");
    for (const ValueId each : node.inputs.empty() ? node.outputs : node.inputs)
      made.tensors.push_back(graph.type(each));
    made.sent_bytes = node.op->sent_bytes(CallTypes(graph, node).call());
  }
}

std::string collectives_text(std::span<const Collective> collectives) {
  std::string text;
  for (const Collective& each : collectives) {
    text += fmt::format("{} in {}: {} over {} ranks of {} (", each.op, each.graph, each.scope,
                        each.ranks, each.group);
    for (size_t i = 0; i < each.tensors.size(); ++i)
      text += (i == 0 ? "" : ", ") + each.tensors[i].str();
    text += ")\n";
  }
  return text;
}

std::string first_mismatch(std::span<const std::string> texts) {
  const auto line = [](const std::vector<std::string>& lines, size_t i) {
    return i < lines.size() && !lines[i].empty() ? lines[i] : std::string("nothing");
  };
  // A bucket may have hundreds of tensors; what differs is near the first difference.
  const auto shown = [](const std::string& text, const std::string& other) {
    constexpr size_t kWhole = 120, kAround = 40;
    if (text.size() <= kWhole) return text;
    const size_t at = static_cast<size_t>(
        std::mismatch(text.begin(), text.end(), other.begin(), other.end()).first - text.begin());
    const size_t begin = std::max(at, kAround) - kAround;
    return fmt::format("{}... {} ...", text.substr(0, kAround), text.substr(begin, 2 * kAround));
  };
  if (texts.empty()) return "";
  const std::vector<std::string> first = split(texts[0], '\n');
  for (size_t rank = 1; rank < texts.size(); ++rank) {
    if (texts[rank] == texts[0]) continue;
    const std::vector<std::string> other = split(texts[rank], '\n');
    for (size_t i = 0; i < std::max(first.size(), other.size()); ++i) {
      const std::string expected = line(first, i), found = line(other, i);
      if (expected != found)
        return fmt::format("collective {}: rank 0 has {}, rank {} has {}", i,
                           shown(expected, found), rank, shown(found, expected));
    }
  }
  return "";
}

namespace {

// A line of collectives_text.
struct Listed {
  explicit Listed(const std::string& text) : line(text) {
    constexpr std::string_view kOver = " over ", kOf = " ranks of ", kTensors = " (";
    const size_t of = text.rfind(kOf), over = text.rfind(kOver, of),
                 tensors = text.find(kTensors, of);
    ranks = std::stoll(text.substr(over + kOver.size()));
    group = text.substr(of + kOf.size(), tensors - of - kOf.size());
    const size_t end = text.find(' ');
    op = text.substr(0, end), what = text.substr(end);
  }

  bool matches(const Listed& other) const {
    if (!met_op(op).empty()) return line == other.line;
    return op != other.op && met_op(other.op).empty() && what == other.what;
  }

  std::string line, op, what, group;
  int64_t ranks = 1;
};

// Runs the lists of all ranks side by side.
class ListedRanks {
 public:
  ListedRanks(std::span<const std::string> texts, const RankLayout& layout)
      : layout_(layout), lists_(texts.size()), at_(texts.size(), 0) {
    for (size_t rank = 0; rank < texts.size(); ++rank)
      for (const std::string& line : split(texts[rank], '\n'))
        if (!line.empty()) lists_[rank].emplace_back(line);
  }

  std::string run() {
    for (bool moves = true; moves;) {
      moves = false;
      for (int64_t rank = 0; rank < std::ssize(lists_); ++rank)
        while (fault_.empty() && step(rank)) moves = true;
    }
    for (int64_t rank = 0; fault_.empty() && rank < std::ssize(lists_); ++rank)
      if (next(rank) != nullptr) fault_ = wait_of(rank);
    return fault_;
  }

 private:
  const Listed* next(int64_t rank) const {
    const auto i = static_cast<size_t>(rank);
    return at_[i] < lists_[i].size() ? &lists_[i][at_[i]] : nullptr;
  }
  std::vector<int64_t> members(const Listed& of, int64_t rank) const {
    return layout_.members(of.group, of.ranks, rank);
  }
  bool has_come(int64_t rank, const Listed& to) const {
    const Listed* own = next(rank);
    return own != nullptr && own->group == to.group;
  }

  // Runs the next collective of the rank if all others have come to it.
  bool step(int64_t rank) {
    const Listed* own = next(rank);
    if (own == nullptr) return false;
    const std::vector<int64_t> all = members(*own, rank);
    if (!std::ranges::all_of(all, [&](int64_t each) { return has_come(each, *own); })) return false;
    for (const int64_t each : all)
      if (each != rank && !own->matches(*next(each))) {
        fault_ = fmt::format("{}, {}", text(rank), text(each));
        return false;
      }
    for (const int64_t each : all) ++at_[static_cast<size_t>(each)];
    return true;
  }

  std::string text(int64_t rank) const {
    const Listed* own = next(rank);
    return own == nullptr ? fmt::format("rank {} has no more", rank)
                          : fmt::format("rank {} has collective {}: {}", rank,
                                        at_[static_cast<size_t>(rank)], own->line);
  }
  std::string wait_of(int64_t rank) const {
    for (const int64_t each : members(*next(rank), rank))
      if (!has_come(each, *next(rank)))
        return fmt::format("{}, and waits forever: {}", text(rank), text(each));
    return text(rank);
  }

  const RankLayout& layout_;
  std::vector<std::vector<Listed>> lists_;
  std::vector<size_t> at_;  // by rank: how many of its collectives have ended
  std::string fault_;
};

}  // namespace

std::string first_mismatch(std::span<const std::string> texts, const RankLayout& layout) {
  return layout.pipeline == 1 ? first_mismatch(texts) : ListedRanks(texts, layout).run();
}

}  // namespace ridge::plan
