// SPDX-License-Identifier: Apache-2.0
// From names in a weight file to stored parameters. A model starts with the identity; passes that
// change a weight's storage (merge, shard, cast) put nodes between. Read backwards it saves
// checkpoints under the file's names.
#pragma once

#include <map>
#include <string>

#include "graph/graph.h"

namespace ridge {
inline namespace graph {

struct LoadGraph {
  Graph graph;                            // inputs are named as in the file
  std::map<std::string, ValueId> stored;  // parameter name -> its value
};

}  // namespace graph
}  // namespace ridge
