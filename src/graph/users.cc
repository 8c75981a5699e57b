// SPDX-License-Identifier: Apache-2.0
// Collects the readers of each value.
#include "graph/users.h"

namespace ridge {
inline namespace graph {

Users::Users(const Graph& graph)
    : graph_(graph), users_(graph.users()), leaves_(graph.values.size()) {
  for (ValueId value : graph.outputs) leaves_[static_cast<size_t>(value)] = true;
}

}  // namespace graph
}  // namespace ridge
