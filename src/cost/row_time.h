// SPDX-License-Identifier: Apache-2.0
// The time of kernels that work row by row (norms, softmax, sums of rows), by the width of a row.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "cost/ceilings.h"
#include "graph/graph.h"

namespace ridge::cost {

// Widths at which these kernels are measured: multiples of 48, so that no preset has them.
inline constexpr std::array<int64_t, 3> kRowWidths = {48, 768, 6144};

// The name of such a rate in Ceilings::functions: "softmax bf16 768".
std::string row_function(std::string_view op, DType dtype, int64_t width);

// ns per element of rows of this width. Up to the second width, a row has a time of its own besides
// that of its elements; beyond, the rate is linear in the logarithm of the width, and constant from
// the last one on. Empty if the kernel was not measured.
std::optional<double> row_ns_per_element(const Ceilings& ceilings,
                                         std::string_view op,
                                         DType dtype,
                                         int64_t width);

// The compute time of a node by these rates. Empty for nodes whose kernel does not work row by row
// and for what was not measured: sums into another type for instance.
std::optional<double> measured_rows_ns(const Graph& graph,
                                       const Ceilings& ceilings,
                                       const Node& node);

// The part of a row kernel's time that the width of its rows does not change; 0 for other nodes.
double rows_ns(const Graph& graph, const Ceilings& ceilings, const Node& node, const Work& work);

// How much longer the thread with the most rows takes than if all had as many; 1 for other nodes.
double load_imbalance(const Graph& graph, const Ceilings& ceilings, const Node& node);

}  // namespace ridge::cost
