// SPDX-License-Identifier: Apache-2.0
// The graph as text, one node a line, and back. parse(print(g)) prints the same text.
//
//   %0 = parameter f32[1000,512] "embedding.weight"
//   %1 = input i32[1024] "ids"
//   %2 : bf16[1024,512] = embedding(%0, %1) {dtype="bf16"} @ "embedding" #forward <0f>
//   return %2
//
// An attribute at its default is left out, and may be there when read.
// `<0f,3b>` are the origins: 0 forward, 3 backward. Origin records print as `origin` lines with
// their model work.
#pragma once

#include <string>
#include <string_view>

#include "graph/graph.h"

namespace ridge {
inline namespace graph {

struct PrintOptions {
  bool origins = true;  // records and `from` sets
  bool scopes = true;
};
std::string print(const Graph& graph, const PrintOptions& options = {});
std::string print(const Graph& graph, const Node& node, const PrintOptions& options = {});

// Throws a usage Error with line and column for text that is no graph of these ops.
Graph parse_graph(std::string_view text, const OpTable& ops);

}  // namespace graph
}  // namespace ridge
