// SPDX-License-Identifier: Apache-2.0
// What a pass is. Each lives in one file of this room; pipeline.cc lists them in order.
#pragma once

#include <string>
#include <string_view>

#include "cost/ceilings.h"
#include "graph/graph.h"
#include "graph/load_graph.h"
#include "plan/target.h"

namespace ridge::passes {

// When a pass runs: on the model's forward graph, on the whole step (forward, backward, optimizer),
// or last, to make the graph fit the target.
enum class Stage : uint8_t { kForward, kStep, kTarget };
std::string_view name(Stage stage);

struct PassContext {
  const OpTable& ops;
  const plan::Target& target;
  LoadGraph& load;  // file names to stored values; passes that change a weight's storage add to it
  // Of the target's machine, for predicted times in records; may be null
  const cost::Ceilings* ceilings = nullptr;
};

struct Pass {
  std::string_view name;
  Stage stage;
  std::string_view summary;  // one line for `ridge explain` and --help
  // What the pass gives up where planned bytes, launches, time or peak do not fall; empty when one
  // of them must.
  std::string_view trade;
  Graph (*run)(const Graph& graph, PassContext& context);
};

}  // namespace ridge::passes
