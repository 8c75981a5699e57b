// SPDX-License-Identifier: Apache-2.0
// Formats the numbers of single nodes and ops.
#include "report/node_text.h"

#include <fmt/format.h>

#include <map>

#include "base/units.h"
#include "graph/text_form.h"
#include "graph/users.h"
#include "plan/planner.h"

namespace ridge::report {
namespace {

constexpr const char* kKinds[] = {"a view: no kernel, no bytes", "pointwise", "a primitive",
                                  "a composite", "a fused op that a pass inserts"};

std::string formula(const Op& op) {
  return op.formula.empty() ? "no arithmetic, only bytes" : op.formula;
}

std::string operands(const Graph& graph, const Node& node, const std::vector<plan::Place>& places) {
  std::string text;
  auto add = [&](const char* label, ValueId value) {
    const Type& type = graph.type(value);
    const Value& root = graph.value(plan::at(places, value).root);
    text +=
        fmt::format("  {:<7} %{:<6} {:<26} {:>10}  {}{}\n", label, value, type.str(),
                    format_bytes(storage_bytes(type.dtype, type.shape.elements())),
                    name(root.storage), root.name.empty() ? "" : " " + terminal_safe(root.name));
  };
  for (ValueId input : node.inputs) add("reads", input);
  for (ValueId output : node.outputs) add("writes", output);
  return text;
}

std::string types_of(const Graph& graph, const Node& node) {
  std::string text;
  for (ValueId input : node.inputs) text += (text.empty() ? "" : ", ") + graph.type(input).str();
  constexpr size_t kLongest = 60;
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

std::string readers_text(const Graph& graph, ValueId value) {
  const Value& v = graph.value(value);
  const std::vector<NodeId> readers = Users(graph).of(value);
  std::string text =
      fmt::format("%{} is from outside the graph: {} {}, {}, {}.\n{} read{} it{}\n", value,
                  name(v.storage), terminal_safe(v.name), v.type.str(),
                  format_bytes(storage_bytes(v.type.dtype, v.type.shape.elements())),
                  readers.size() == 1 ? "1 node" : fmt::format("{} nodes", readers.size()),
                  readers.size() == 1 ? "s" : "", readers.empty() ? "." : ":");
  for (NodeId reader : readers) text += print(graph, graph.node(reader));
  return text;
}

std::string node_text(const PredictedGraph& predicted,
                      const Node& node,
                      const plan::Target& target) {
  const Graph& graph = *predicted.graph;
  const auto id = static_cast<size_t>(&node - graph.nodes.data());
  const cost::NodeCost& c = predicted.costed.costs[id];
  const cost::NodePrediction& p = predicted.nodes[id];
  std::string text = print(graph, node) + "\n";
  text += fmt::format("{} is {}.\n{}", node.op->name, kKinds[static_cast<size_t>(node.op->kind)],
                      operands(graph, node, predicted.costed.places));
  text += fmt::format("\nformula    {}\n", formula(*node.op));
  text += fmt::format(
      "MACs       {}\nFLOPs      {} ({} of them transcendental: exp, log, tanh, division)\n",
      format_integer(c.work.macs), format_integer(c.work.flops),
      format_integer(c.work.transcendentals));
  text += fmt::format("bytes      {} read, {} written (planned: each operand once)\n",
                      format_integer(c.read_bytes), format_integer(c.written_bytes));
  text += fmt::format("workspace  {}\n", format_bytes(target.workspace_bytes(graph, node)));
  text += fmt::format("intensity  {:.3g} FLOP/B\nlaunches   {}\n", p.flops_per_byte, c.launches);
  text += fmt::format("predicted  {} = max(compute {}, memory {}) + overhead {}; bound: {}\n",
                      format_ns(p.ns), format_ns(p.compute_ns), format_ns(p.memory_ns),
                      format_ns(p.overhead_ns), name(p.bound));
  return text;
}

}  // namespace

PredictedGraph predict_graph(const Graph& graph,
                             const plan::Target& target,
                             const cost::Ceilings& ceilings) {
  PredictedGraph predicted{&graph, cost::count(plan::plan(graph, target)), {}};
  predicted.nodes = cost::predict_nodes(predicted.costed, ceilings);
  return predicted;
}

std::string value_text(const PredictedGraph& predicted, ValueId value, const plan::Target& target) {
  const Graph& graph = *predicted.graph;
  const NodeId producer = graph.value(value).producer;
  return producer == kNoNode ? readers_text(graph, value)
                             : node_text(predicted, graph.node(producer), target);
}

std::string op_text(const PredictedGraph& predicted, const Op& op, const TerminalOptions& options) {
  const Graph& graph = *predicted.graph;
  struct Row {
    int64_t nodes = 0;
    cost::NodeCost cost;
    double ns = 0;
    cost::Bound bound = cost::Bound::kNone;
    ValueId example = kNoValue;
  };
  std::map<std::string, Row> rows;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const Node& node = graph.nodes[i];
    if (node.op != &op) continue;
    Row& row = rows[fmt::format("{} {}", name(node.phase), types_of(graph, node))];
    ++row.nodes;
    row.cost += predicted.costed.costs[i];
    row.ns += predicted.nodes[i].ns;
    row.bound = predicted.nodes[i].bound;
    if (row.example == kNoValue && !node.outputs.empty()) row.example = node.outputs[0];
  }
  std::string text = fmt::format("{} is {}.\n", op.name, kKinds[static_cast<size_t>(op.kind)]) +
                     wrap_lines("formula: " + formula(op), options.columns);
  if (rows.empty()) return text + "This graph has no such node.\n";
  Table table(
      "<phase and inputs | nodes | FLOPs ?2 | MACs ?4 | bytes ?3 | predicted | "
      "<bound ?1 | example");
  for (const auto& [key, row] : rows)
    table.add(
        {key, format_integer(row.nodes), format_count(static_cast<double>(row.cost.work.flops)),
         format_count(static_cast<double>(row.cost.work.macs)), format_bytes(row.cost.bytes()),
         format_ns(row.ns), std::string(name(row.bound)), fmt::format("%{}", row.example)});
  return text + "\n" + table.text(options);
}

}  // namespace ridge::report
