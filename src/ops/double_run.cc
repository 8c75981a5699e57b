// SPDX-License-Identifier: Apache-2.0
// Calls the references node by node.
#include "ops/double_run.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "base/random.h"

namespace ridge::ops {
namespace {

double rounded(double value, DType dtype) {
  if (dtype == DType::kBF16) return bf16_to_float(float_to_bf16(static_cast<float>(value)));
  if (dtype == DType::kF16) return f16_to_float(float_to_f16(static_cast<float>(value)));
  return static_cast<float>(value);
}

double draw_normal(Random& random) {
  const double radius = std::sqrt(-2 * std::log(1 - static_cast<double>(random.uniform())));
  return radius * std::cos(2 * std::numbers::pi * static_cast<double>(random.uniform()));
}

}  // namespace

std::vector<Tensor64> run_in_double(const Graph& graph, const NamedTensors& named) {
  std::vector<Tensor64> values(graph.values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.producer != kNoNode) continue;
    const auto found = named.find(value.name);
    RIDGE_CHECK(
        found != named.end() && std::ssize(found->second.data) == value.type.shape.elements(),
        "no values of '{}'", value.name);
    values[i] = {value.type, found->second.data};
  }
  for (const Node& node : graph.nodes) {
    if (node.op->reference == nullptr)
      throw usage_error("[{}] has no reference of its own; expand the graph first", node.op->name);
    std::vector<Type> inputs, outputs;
    std::vector<const Tensor64*> read;
    for (const ValueId input : node.inputs) {
      read.push_back(&values[static_cast<size_t>(input)]);
      inputs.push_back(graph.type(input));
    }
    std::vector<Tensor64> made;
    for (const ValueId output : node.outputs) {
      outputs.push_back(graph.type(output));
      made.push_back({outputs.back(),
                      std::vector<double>(static_cast<size_t>(outputs.back().shape.elements()))});
    }
    node.op->reference({inputs, outputs, node.attrs}, read, made);
    for (size_t i = 0; i < made.size(); ++i)
      values[static_cast<size_t>(node.outputs[i])] = std::move(made[i]);
  }
  std::vector<Tensor64> results;
  for (const ValueId output : graph.outputs) results.push_back(values[static_cast<size_t>(output)]);
  return results;
}

NamedTensors random_operands(const Graph& graph, uint32_t seed, int64_t ids) {
  Random random(seed);
  NamedTensors named;
  for (const Value& value : graph.values) {
    if (value.producer != kNoNode) continue;
    Tensor64 made{value.type,
                  std::vector<double>(static_cast<size_t>(value.type.shape.elements()))};
    for (double& each : made.data)
      each = is_float(value.type.dtype)
                 ? rounded(draw_normal(random), value.type.dtype)
                 : static_cast<double>(random.below(static_cast<uint32_t>(ids)));
    named.emplace(value.name, std::move(made));
  }
  return named;
}

double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  RIDGE_CHECK(found.size() == expected.size(), "{} and {} values", found.size(), expected.size());
  double most = 0, difference = 0;
  for (size_t i = 0; i < found.size(); ++i) {
    if (found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i]))) continue;
    if (!std::isfinite(found[i]) || !std::isfinite(expected[i]))
      return std::numeric_limits<double>::infinity();
    difference = std::max(difference, std::abs(found[i] - expected[i]));
  }
  for (const double each : expected)
    if (std::isfinite(each)) most = std::max(most, std::abs(each));
  return difference == 0 ? 0 : difference / std::max(most, std::numeric_limits<double>::min());
}

}  // namespace ridge::ops
