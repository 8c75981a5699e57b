// SPDX-License-Identifier: Apache-2.0
// Prints graphs as text, one node per line, and parses them. parse(print(g)) prints the same text.
//
//   %0 = parameter f32[1000,512] "embedding.weight"
//   %1 = input i32[1024] "ids"
//   %2 : bf16[1024,512] = embedding(%0, %1) {dtype="bf16"} @ "embedding" #forward <0f>
//   return %2
//
// An attribute at its default is omitted, and is optional when parsing. `<0f,3b>` are the origins:
// 0 forward, 3 backward. Origin records are printed as `origin` lines with their model work.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace ridge::inline graph {

struct PrintOptions {
  bool origins = true;  // records and `from` sets
  bool scopes = true;
};
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Graph& graph, const Node& node, const PrintOptions& options = {});

// Throws a usage Error with line and column if the text is not a graph of these ops.
Graph parse_graph(std::string_view text, const OpTable& ops);

}  // namespace ridge::inline graph
