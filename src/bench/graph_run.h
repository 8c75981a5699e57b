// SPDX-License-Identifier: Apache-2.0
// Runs a graph once on given data and returns its outputs. Measures nothing.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "bench/graph_trial.h"

namespace ridge::bench {

// The values of operands by name, in the types of the graph.
using OperandBytes = std::map<std::string, std::vector<std::byte>, std::less<>>;

// The inputs, parameters and states of a graph, in its order.
std::vector<Value> operands_of(const Graph& graph);

// The values of an operand as its type stores them. Throws usage Errors for types that have no
// such values. There must be as many as the type has elements (checked).
std::vector<std::byte> stored(const Value& operand, const std::vector<float>& values);
std::vector<std::byte> stored(const Value& operand, const std::vector<int32_t>& values);

// The outputs of the graph, dense and as floats, in its order. States that are not given begin
// with zeros. Throws usage Errors for an input or a parameter that is not given, a name that the
// graph has not, and an output of integers.
std::vector<std::vector<float>> run_graph(const TrialGraph& trial,
                                          const passes::Selection& selection,
                                          backends::Backend& backend,
                                          const OperandBytes& given);

// A result of a graph, or the gradient of an operand, as floats.
struct NamedResult {
  std::string name;
  Type type;
  std::vector<float> values;
};
// The outputs of the graph on values given by name, numbers in a list each: "result" or "result I";
// with setting.is_backward also "gradient of NAME" of each operand, for gradients of 1 of all
// outputs. Throws usage Errors as above and for lists of another length.
std::vector<NamedResult> run_on_values(const TrialGraph& trial,
                                       const TrialSetting& setting,
                                       backends::Backend& backend,
                                       const std::map<std::string, std::vector<float>>& values);

}  // namespace ridge::bench
