// SPDX-License-Identifier: Apache-2.0
// Runs a graph in double precision by the references of its ops: no kernel, planner or rounding.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "graph/graph.h"

namespace ridge::ops {

// By the names of inputs, parameters and states.
using NamedTensors = std::map<std::string, Tensor64>;

// The outputs of the graph, in its order. Throws a usage Error for an op without a reference: a
// composite, which `expand` takes apart. `named` must have each value without a producer (checked).
std::vector<Tensor64> run_in_double(const Graph& graph, const NamedTensors& named);

// Values for each operand of the graph, from a seed: normally distributed floats, as the element
// type rounds them, and ids below `ids`.
NamedTensors random_operands(const Graph& graph, uint32_t seed, int64_t ids);

// The largest difference over the largest magnitude of `expected`; infinity where one is not finite
// and the other differs. Both have the same number of elements (checked).
double relative_error(const std::vector<double>& found, const std::vector<double>& expected);

}  // namespace ridge::ops
