// SPDX-License-Identifier: Apache-2.0
// The table of rules, and the one check that needs the whole schedule: no read of an overwritten
// version.
#include "graph/verifier.h"

#include <algorithm>
#include <array>

#include "base/error.h"
#include "graph/builder.h"
#include "graph/text_form.h"

namespace ridge::inline graph {
namespace {

std::string producers_first(const Graph& graph, NodeId id) {
  for (ValueId input : graph.node(id).inputs) {
    if (input < 0 || input >= static_cast<ValueId>(graph.values.size()))
      return "an input is no value";
    if (graph.value(input).producer >= id)
      return fmt::format("%{} is read before it is made", input);
  }
  return "";
}

std::string outputs_are_its_own(const Graph& graph, NodeId id) {
  for (ValueId output : graph.node(id).outputs)
    if (graph.value(output).producer != id) return fmt::format("%{} has another producer", output);
  return "";
}

std::string shapes_follow_the_op(const Graph& graph, NodeId id) {
  CallTypes types(graph, graph.node(id));
  std::vector<Type> outputs = std::move(types.outputs);
  types.outputs.clear();
  std::vector<Type> inferred = graph.node(id).op->infer(types.call());
  if (inferred.size() != outputs.size()) return fmt::format("{} outputs inferred", inferred.size());
  for (size_t i = 0; i < inferred.size(); ++i)
    if (inferred[i] != outputs[i])
      return fmt::format("output {} should be {}", i, inferred[i].str());
  return "";
}

// Without a copy of them: as a rule all are there.
bool has_declared_attrs(const Node& node) {
  const auto is_declared = [&](const auto& entry) {
    return std::ranges::any_of(node.op->attrs, [&](const AttrSpec& spec) {
      return spec.name == entry.first && spec.value.index() == entry.second.index();
    });
  };
  return std::ranges::distance(node.attrs) == std::ssize(node.op->attrs) &&
         std::all_of(node.attrs.begin(), node.attrs.end(), is_declared);
}

std::string attrs_are_declared(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  if (has_declared_attrs(node)) return "";
  complete_attrs(*node.op, node.attrs);  // throws if one is unknown, mistyped or missing
  return "an attribute is missing its default";
}

std::string work_has_origins(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  // A view does no work; every other node must have an origin for its work.
  if (node.op->kind != OpKind::kView && node.from.empty()) return "no origin";
  for (const Origin& origin : node.from)
    if (origin.id < 0 || origin.id >= static_cast<int32_t>(graph.origins.size()))
      return fmt::format("origin {} has no record", origin.id);
  bool sorted = std::is_sorted(node.from.begin(), node.from.end()) &&
                std::adjacent_find(node.from.begin(), node.from.end()) == node.from.end();
  return sorted ? "" : "origins are not sorted and distinct";
}

std::string updates_match_types(const Graph& graph, NodeId id) {
  const Node& node = graph.node(id);
  for (const Alias& alias : aliases(graph, node)) {
    ValueId output = node.outputs[static_cast<size_t>(alias.output)];
    ValueId input = node.inputs[static_cast<size_t>(alias.input)];
    if (graph.type(output) != graph.type(input))
      return fmt::format("%{} and %{} differ in type", output, input);
    if (graph.value(input).storage == Storage::kInput) return fmt::format("%{} is an input", input);
  }
  return "";
}

constexpr std::array kRules = {
    Rule{"producers_first", "the node list is the schedule", producers_first},
    Rule{"outputs_are_its_own", "values are in SSA form: one producer each", outputs_are_its_own},
    Rule{"shapes_follow_the_op", "kernels trust the types that the op infers",
         shapes_follow_the_op},
    Rule{"attrs_are_declared", "an attribute that no op declares would be silently ignored",
         attrs_are_declared},
    Rule{"work_has_origins", "model FLOPs are the sum over origins: work without one is lost",
         work_has_origins},
    Rule{"updates_match_types",
         "an update in place writes the bytes that were there; inputs belong to the host",
         updates_match_types},
};

[[noreturn]] void violated(const Graph& graph,
                           NodeId id,
                           const Rule& rule,
                           const std::string& what) {
  throw InternalError(fmt::format("[verifier] {}: {} ({}) at node {}: {}", rule.name, what,
                                  rule.reason, id, print(graph, graph.node(id))));
}

// For each value the first value in its buffer (through views and updates in place).
std::vector<ValueId> buffers(const Graph& graph) {
  std::vector<ValueId> root(graph.values.size());
  for (size_t i = 0; i < root.size(); ++i) root[i] = static_cast<ValueId>(i);
  auto join = [&](ValueId output, ValueId input) {
    root[static_cast<size_t>(output)] = root[static_cast<size_t>(input)];
  };
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::kView) join(node.outputs[0], node.inputs[0]);
    for (const Alias& alias : aliases(graph, node))
      join(node.outputs[static_cast<size_t>(alias.output)],
           node.inputs[static_cast<size_t>(alias.input)]);
  }
  return root;
}

// It concerns the graph as a whole, so it has no function of a node.
constexpr Rule kNoStaleReads{"no_stale_reads", "an update in place ends the old version", nullptr};

// After an update in place, older versions of the buffer and their views no longer hold their
// values.
void verify_versions(const Graph& graph) {
  std::vector<ValueId> root = buffers(graph);
  std::vector<int> buffer_version(graph.values.size(), 0);
  std::vector<int> value_version(graph.values.size(), 0);
  auto version = [&](ValueId value) -> int& {
    return buffer_version[static_cast<size_t>(root[static_cast<size_t>(value)])];
  };
  auto stale = [&](ValueId value) {
    return value_version[static_cast<size_t>(value)] != version(value);
  };
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    for (ValueId input : node.inputs)
      if (stale(input))
        violated(graph, static_cast<NodeId>(i), kNoStaleReads,
                 fmt::format("%{} was overwritten before", input));
    for (const Alias& alias : aliases(graph, node))
      ++version(node.inputs[static_cast<size_t>(alias.input)]);
    for (ValueId output : node.outputs)
      value_version[static_cast<size_t>(output)] = version(output);
  }
  for (ValueId output : graph.outputs)
    RIDGE_CHECK(!stale(output), "[verifier] the graph returns %{}, which was overwritten", output);
}

}  // namespace

std::span<const Rule> rules() { return kRules; }

void verify(const Graph& graph) {
  for (size_t i = 0; i < graph.nodes.size(); ++i)
    for (const Rule& rule : kRules) {
      std::string what = rule.violation(graph, static_cast<NodeId>(i));
      if (!what.empty()) violated(graph, static_cast<NodeId>(i), rule, what);
    }
  verify_versions(graph);
}

void verify_origins(const Graph& before, const Graph& after) {
  std::vector<Origin> old_origins = distinct_origins(before);
  std::vector<Origin> new_origins = distinct_origins(after);
  for (const Origin& origin : old_origins) {
    if (std::binary_search(new_origins.begin(), new_origins.end(), origin)) continue;
    const OriginRecord& record = before.origins[static_cast<size_t>(origin.id)];
    throw InternalError(
        fmt::format("[verifier] no_lost_origin: {} '{}' in '{}' ({}) is gone after the rewrite",
                    record.op, origin.id, record.scope, name(origin.phase)));
  }
}

}  // namespace ridge::inline graph
