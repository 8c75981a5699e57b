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
    for (const ValueId input : node.inputs) made.tensors.push_back(graph.type(input));
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

}  // namespace ridge::plan
