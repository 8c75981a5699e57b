// SPDX-License-Identifier: Apache-2.0
// Interpolates between the measured widths, and finds the rows of a node.
#include "cost/row_time.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/shape.h"
#include "ops/registry.h"

namespace ridge::cost {
namespace {

bool reduces_rows(const Graph& graph, const Node& node) {
  const std::vector<int64_t>& axes = node.attrs.integers("axes");
  return !axes.empty() && axes.back() == graph.shape(node.inputs[0]).rank() - 1;
}

bool is_by_rows(const Graph& graph, const Node& node) {
  return is_a(node, ops::rms_norm_op()) || is_a(node, ops::softmax_op()) ||
         is_a(node, ops::cached_softmax_op()) || is_a(node, ops::log_softmax_op()) ||
         (is_a(node, ops::reduce_sum_op()) && reduces_rows(graph, node));
}

// bf16 is widened and rounded in registers.
double row_conversions_ns(const Graph& graph, const Ceilings& ceilings, const Node& node) {
  const auto elements = [&](ValueId value) {
    const Type& type = graph.type(value);
    return type.dtype == DType::kBF16 ? static_cast<double>(type.shape.elements()) : 0;
  };
  return ns_at(elements(node.inputs[0]), ceilings.widened_elements_per_ns) +
         ns_at(elements(node.outputs[0]), ceilings.narrowed_elements_per_ns);
}

}  // namespace

std::string row_function(std::string_view op, DType dtype, int64_t width) {
  return fmt::format("{} {} {}", op, name(dtype), width);
}

std::optional<double> row_ns_per_element(const Ceilings& ceilings,
                                         std::string_view op,
                                         DType dtype,
                                         int64_t width) {
  std::array<double, kRowWidths.size()> ns{};
  for (size_t i = 0; i < ns.size(); ++i) {
    const double rate = ceilings.function_elements_per_ns(row_function(op, dtype, kRowWidths[i]));
    if (rate <= 0) return {};
    ns[i] = 1 / rate;
  }
  const auto at = [](int64_t each) { return static_cast<double>(std::max<int64_t>(each, 1)); };
  const double short_width = at(kRowWidths[0]), middle = at(kRowWidths[1]), far = at(kRowWidths[2]);
  if (width >= kRowWidths[1]) {
    const double share = std::log(at(width) / middle) / std::log(far / middle);
    return ns[1] + std::min(1.0, share) * (ns[2] - ns[1]);
  }
  const double row_ns = std::max(0.0, (ns[0] - ns[1]) / (1 / short_width - 1 / middle));
  return ns[1] + row_ns * (1 / at(width) - 1 / middle);
}

std::optional<double> measured_rows_ns(const Graph& graph,
                                       const Ceilings& ceilings,
                                       const Node& node) {
  if (!is_by_rows(graph, node)) return {};
  const Type& x = graph.type(node.inputs[0]);
  if (graph.type(node.outputs[0]).dtype != x.dtype) return {};
  // The exponentials of a row hide its scale and its mask.
  const Op& measured = is_a(node, ops::cached_softmax_op()) ? ops::softmax_op() : *node.op;
  const std::optional<double> ns =
      row_ns_per_element(ceilings, measured.name, x.dtype, x.shape.back());
  if (!ns) return {};
  return *ns * static_cast<double>(x.shape.elements());
}

double rows_ns(const Graph& graph, const Ceilings& ceilings, const Node& node, const Work& work) {
  if (!is_by_rows(graph, node)) return 0;
  const Shape& shape = graph.shape(node.inputs[0]);
  const double rows = static_cast<double>(shape.elements() / std::max<int64_t>(shape.back(), 1));
  const bool has_exponentials = static_cast<double>(work.transcendentals) > 2 * rows;
  return ns_at(rows, has_exponentials ? ceilings.exponential_rows_per_ns : ceilings.rows_per_ns) +
         row_conversions_ns(graph, ceilings, node);
}

double load_imbalance(const Graph& graph, const Ceilings& ceilings, const Node& node) {
  if (!is_by_rows(graph, node)) return 1;
  const Shape& shape = graph.shape(node.inputs[0]);
  const int64_t rows = shape.elements() / std::max<int64_t>(shape.back(), 1),
                threads = std::max(1, ceilings.machine.threads);
  if (rows == 0) return 1;
  return static_cast<double>(ceil_div(rows, threads) * threads) / static_cast<double>(rows);
}

}  // namespace ridge::cost
