// SPDX-License-Identifier: Apache-2.0
// The graph that computes stored parameters from the tensors of a weight file. A model starts with
// the identity; passes that change how a weight is stored (merge, shard, cast) insert nodes. Read
// backwards, it saves checkpoints under the file's names.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/graph.h"

namespace ridge::inline graph {

struct LoadGraph {
  Graph graph;                            // inputs are named as in the file
  std::map<std::string, ValueId> stored;  // parameter name -> its value
  int64_t rank = 0;                       // the process, of those that share the model
};

}  // namespace ridge::inline graph
