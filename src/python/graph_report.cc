// SPDX-License-Identifier: Apache-2.0
// Shows costs, plans and measurements of graphs. The tables and the picture are the report's.
#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

#include "base/units.h"
#include "bench/graph_trial.h"
#include "python/graph_cost.h"
#include "python/report.h"
#include "record/memory_record.h"
#include "report/bench_table.h"
#include "report/memory_plan.h"

namespace ridge::python {
namespace {

constexpr size_t kMostRows = 40;

std::string result_type(const Graph& graph, const Node& node) {
  return node.outputs.empty() ? "" : graph.type(node.outputs[0]).str();
}

// One row a node that runs, in their order.
std::string nodes_text(const GraphCost& cost) {
  const Graph& graph = cost.costed->graph;
  const bool is_predicted = !cost.predictions.empty();
  report::Table table(is_predicted
                          ? "<op | <result | FLOPs | read | written | launches | predicted | <bound"
                          : "<op | <result | FLOPs | read | written | launches");
  size_t running = 0;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const cost::NodeCost& each = cost.costed->costs[i];
    if (each.launches == 0 || ++running > kMostRows) continue;
    std::vector<std::string> cells = {
        graph.nodes[i].op->name,          result_type(graph, graph.nodes[i]),
        format_integer(each.work.flops),  format_bytes(each.read_bytes),
        format_bytes(each.written_bytes), format_integer(each.launches)};
    if (is_predicted) {
      cells.push_back(format_ns(cost.predictions[i].ns));
      cells.emplace_back(name(cost.predictions[i].bound));
    }
    table.add(std::move(cells));
  }
  std::string text = table.text();
  if (running > kMostRows) text += fmt::format("and {} more\n", running - kMostRows);
  return text;
}

report::Json nodes_json(const GraphCost& cost) {
  report::Json nodes = report::Json::array();
  const Graph& graph = cost.costed->graph;
  for (size_t i = 0; i < graph.nodes.size(); ++i) {
    const cost::NodeCost& each = cost.costed->costs[i];
    report::Json node = {
        {"op", graph.nodes[i].op->name}, {"type", result_type(graph, graph.nodes[i])},
        {"flops", each.work.flops},      {"macs", each.work.macs},
        {"read_bytes", each.read_bytes}, {"written_bytes", each.written_bytes},
        {"launches", each.launches}};
    if (!cost.predictions.empty()) node["predicted_ns"] = cost.predictions[i].ns;
    nodes.push_back(std::move(node));
  }
  return nodes;
}

}  // namespace

std::string measurement_text(const record::BenchPoint& point) {
  record::BenchRecord bench;
  bench.kind = "graph";
  bench.points = {point};
  return report::bench_table(bench).text();
}

std::string cost_text(const GraphCost& cost) {
  return measurement_text(cost.point) + "\n" + nodes_text(cost);
}

Report plan_report(const GraphCost& cost) {
  const std::vector<cost::ProgramGraph> program = {{"graph", 1, cost.costed}};
  const record::MemoryRecord memory = record::planned_memory(program);
  const record::BenchPoint& point = cost.point;
  report::Json json = {{"flops", point.work.flops},
                       {"macs", point.work.macs},
                       {"bytes", point.planned_bytes},
                       {"compulsory_bytes", point.compulsory_bytes},
                       {"launches", point.launches}};
  if (point.predicted_ns > 0) json["predicted_ns"] = point.predicted_ns;
  json["nodes"] = nodes_json(cost);
  json["memory"] = report::memory_plan_json(memory, *cost.costed);
  return {report::json_text(json), cost_text(cost) + "\n" + report::memory_plan_text(memory, {}),
          report::memory_chart(memory)};
}

}  // namespace ridge::python
