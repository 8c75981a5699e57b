// SPDX-License-Identifier: Apache-2.0
// Formats the numbers of single nodes and ops. Not a subcommand.
#include "apps/explain_node.h"

#include <fmt/format.h>

#include <map>

#include "base/units.h"
#include "graph/text_form.h"
#include "graph/users.h"
#include "plan/planner.h"

namespace ridge::apps {
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

}  // namespace

bool has_value(const Graph& graph, ValueId value) {
  return value >= 0 && value < static_cast<ValueId>(graph.values.size());
}

ExplainedGraph::ExplainedGraph(const Graph& graph,
                               const plan::Target& target,
                               const cost::Ceilings& ceilings)
    : graph_(graph),
      target_(target),
      costed_(cost::count(plan::plan(graph, target))),
      predictions_(cost::predict_nodes(costed_, ceilings)) {}

std::string ExplainedGraph::value_text(ValueId value) const {
  const NodeId producer = graph_.value(value).producer;
  return producer == kNoNode ? readers_text(value) : node_text(graph_.node(producer));
}

std::string ExplainedGraph::readers_text(ValueId value) const {
  const Value& v = graph_.value(value);
  const std::vector<NodeId> readers = Users(graph_).of(value);
  std::string text =
      fmt::format("%{} is from outside the graph: {} {}, {}, {}.\n{} read{} it{}\n", value,
                  name(v.storage), terminal_safe(v.name), v.type.str(),
                  format_bytes(storage_bytes(v.type.dtype, v.type.shape.elements())),
                  readers.size() == 1 ? "1 node" : fmt::format("{} nodes", readers.size()),
                  readers.size() == 1 ? "s" : "", readers.empty() ? "." : ":");
  for (NodeId reader : readers) text += print(graph_, graph_.node(reader));
  return text;
}

std::string ExplainedGraph::node_text(const Node& node) const {
  const auto id = static_cast<size_t>(&node - graph_.nodes.data());
  const cost::NodeCost& c = costed_.costs[id];
  const cost::NodePrediction& p = predictions_[id];
  std::string text = print(graph_, node) + "\n";
  text += fmt::format("{} is {}.\n{}", node.op->name, kKinds[static_cast<size_t>(node.op->kind)],
                      operands(graph_, node, costed_.places));
  text += fmt::format("\nformula    {}\n", formula(*node.op));
  text += fmt::format(
      "MACs       {}\nFLOPs      {} ({} of them transcendental: exp, log, tanh, division)\n",
      format_integer(c.work.macs), format_integer(c.work.flops),
      format_integer(c.work.transcendentals));
  text += fmt::format("bytes      {} read, {} written (planned: each operand once)\n",
                      format_integer(c.read_bytes), format_integer(c.written_bytes));
  text += fmt::format("workspace  {}\n", format_bytes(target_.workspace_bytes(graph_, node)));
  text += fmt::format("intensity  {:.3g} FLOP/B\nlaunches   {}\n", p.flops_per_byte, c.launches);
  text += fmt::format("predicted  {} = max(compute {}, memory {}) + overhead {}; bound: {}\n",
                      format_ns(p.ns), format_ns(p.compute_ns), format_ns(p.memory_ns),
                      format_ns(p.overhead_ns), name(p.bound));
  return text;
}

std::string ExplainedGraph::op_text(const Op& op, const TerminalOptions& options) const {
  struct Row {
    int64_t nodes = 0;
    cost::NodeCost cost;
    double ns = 0;
    cost::Bound bound = cost::Bound::kNone;
    ValueId example = kNoValue;
  };
  std::map<std::string, Row> rows;
  for (size_t i = 0; i < graph_.nodes.size(); ++i) {
    const Node& node = graph_.nodes[i];
    if (node.op != &op) continue;
    Row& row = rows[fmt::format("{} {}", name(node.phase), types_of(graph_, node))];
    ++row.nodes;
    row.cost += costed_.costs[i];
    row.ns += predictions_[i].ns;
    row.bound = predictions_[i].bound;
    if (row.example == kNoValue && !node.outputs.empty()) row.example = node.outputs[0];
  }
  std::string text = fmt::format("{} is {}.\n", op.name, kKinds[static_cast<size_t>(op.kind)]) +
                     wrap_lines("formula: " + formula(op), options.columns);
  if (rows.empty()) return text + "This graph has no such node.\n";
  Table table({{"phase and inputs", Align::kLeft},
               {"nodes"},
               {"FLOPs", Align::kRight, 2},
               {"MACs", Align::kRight, 4},
               {"bytes", Align::kRight, 3},
               {"predicted"},
               {"bound", Align::kLeft, 1},
               {"example"}});
  for (const auto& [key, row] : rows)
    table.add(
        {key, format_integer(row.nodes), format_count(static_cast<double>(row.cost.work.flops)),
         format_count(static_cast<double>(row.cost.work.macs)), format_bytes(row.cost.bytes()),
         format_ns(row.ns), std::string(name(row.bound)), fmt::format("%{}", row.example)});
  return text + "\n" + table.text(options);
}

}  // namespace ridge::apps
