// SPDX-License-Identifier: Apache-2.0
// Binds the costs and the measurements of graphs.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>

#include "base/units.h"
#include "bench/graph_trial.h"
#include "python/binding.h"
#include "python/graph_cost.h"

namespace ridge::python {
namespace nb = nanobind;
namespace {

using record::BenchPoint;

std::optional<double> if_known(double ns) { return ns > 0 ? std::optional(ns) : std::nullopt; }

// One row a node, for a table or pandas.
nb::list rows(const GraphCost& cost) {
  nb::list rows;
  for (size_t i = 0; i < cost.costed->graph.nodes.size(); ++i) {
    const Node& node = cost.costed->graph.nodes[i];
    const cost::NodeCost& each = cost.costed->costs[i];
    nb::dict row;
    row["op"] = node.op->name;
    row["scope"] = node.scope;
    row["phase"] = std::string(name(node.phase));
    row["flops"] = each.work.flops;
    row["macs"] = each.work.macs;
    row["read_bytes"] = each.read_bytes;
    row["written_bytes"] = each.written_bytes;
    row["launches"] = each.launches;
    if (!cost.predictions.empty()) {
      row["predicted_ns"] = cost.predictions[i].ns;
      row["bound"] = std::string(name(cost.predictions[i].bound));
    }
    rows.append(row);
  }
  return rows;
}

template <typename T>
void bind_counts(nb::class_<T>& bound, const BenchPoint& (*point)(const T&)) {
  const auto figure = [&](const char* name, auto get, const char* doc) {
    bound.def_prop_ro(
        name, [point, get](const T& self) { return get(point(self)); }, doc);
  };
  figure(
      "flops", [](const BenchPoint& p) { return p.work.flops; }, "executed; 2 for each MAC");
  figure(
      "macs", [](const BenchPoint& p) { return p.work.macs; }, "multiply-accumulates");
  figure(
      "bytes", [](const BenchPoint& p) { return p.planned_bytes; },
      "planned: each operand of each kernel once");
  figure(
      "compulsory_bytes", [](const BenchPoint& p) { return p.compulsory_bytes; },
      "the graph's inputs and outputs once, as if all were fused");
  figure(
      "launches", [](const BenchPoint& p) { return p.launches; }, "kernel launches");
  figure(
      "owned_bytes", [](const BenchPoint& p) { return p.owned_bytes; },
      "memory of stored values and the arena");
  figure(
      "flops_per_byte", [](const BenchPoint& p) { return p.planned_intensity(); },
      "executed FLOPs per planned byte");
  figure(
      "predicted_ns", [](const BenchPoint& p) { return if_known(p.predicted_ns); },
      "None until `ridge.machine()` has measured the ceilings once");
  figure(
      "limit_ns", [](const BenchPoint& p) { return if_known(p.limit_ns); },
      "the roofline's limit of the time");
  figure(
      "bound", [](const BenchPoint& p) { return std::string(p.bound_by()); },
      "what bounds the time: compute, overhead or a level of memory");
}

}  // namespace

GraphCost cost_of(Graph graph, const plan::Target& target, const cost::Ceilings* ceilings) {
  GraphCost made;
  made.costed = cost::program_graph("graph", std::move(graph), 1, target).costed;
  made.point = bench::plan_point(*made.costed, ceilings);
  if (ceilings != nullptr) made.predictions = cost::predict_nodes(*made.costed, *ceilings);
  return made;
}

void bind_graph_cost(nb::module_& m) {
  nb::class_<GraphCost> cost(m, "Cost", "The exact cost of a graph, and its predicted time.");
  bind_counts<GraphCost>(cost, [](const GraphCost& c) -> const BenchPoint& { return c.point; });
  cost.def_prop_ro("nodes", &rows, "One dict for each node, in the order in which they run.",
                   nb::sig("def nodes(self) -> list[dict[str, typing.Any]]"))
      .def_prop_ro(
          "arena_bytes", [](const GraphCost& c) { return c.costed->memory.arena_bytes; },
          "memory of all temporaries, as planned")
      .def_prop_ro(
          "peak_bytes", [](const GraphCost& c) { return c.costed->memory.live_peak_bytes; },
          "the largest sum of temporaries that live at once")
      .def("__str__", &cost_text)
      .def("_repr_html_", [](const GraphCost& c) { return html_text(cost_text(c)); })
      .def("__repr__", [](const GraphCost& c) {
        return fmt::format("<ridge.Cost: {} FLOPs, {} bytes, {} launches>", c.point.work.flops,
                           c.point.planned_bytes, c.point.launches);
      });
  nb::class_<BenchPoint> measured(m, "Measurement", "The cost of a graph, and its measured time.");
  bind_counts<BenchPoint>(measured, [](const BenchPoint& p) -> const BenchPoint& { return p; });
  measured
      .def_prop_ro(
          "ns", [](const BenchPoint& p) { return p.time.median; }, "the median of its runs")
      .def_prop_ro(
          "low_ns", [](const BenchPoint& p) { return p.time.low; },
          "of the 95% interval of the median")
      .def_prop_ro("high_ns", [](const BenchPoint& p) { return p.time.high; })
      .def_prop_ro("samples", [](const BenchPoint& p) { return p.time.count; })
      .def_prop_ro("flops_per_s", &BenchPoint::flops_per_s)
      .def_prop_ro("bytes_per_s", &BenchPoint::bytes_per_s)
      .def_prop_ro("limit_share", &BenchPoint::limit_share,
                   "the roofline's limit over the measured time")
      .def("__str__", &measurement_text)
      .def("_repr_html_", [](const BenchPoint& p) { return html_text(measurement_text(p)); })
      .def("__repr__", [](const BenchPoint& p) {
        return fmt::format("<ridge.Measurement: {} of {} samples>", format_ns(p.time.median),
                           p.time.count);
      });
}

}  // namespace ridge::python
