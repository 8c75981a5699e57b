// SPDX-License-Identifier: Apache-2.0
// What a pass is, and what it is run with. Each lives in one file: of this room where any target
// may use it, of a backend's `passes/` where that backend alone does. passes.h lists them all.
#pragma once

#include <span>
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

// Whose graphs a pass is for: in others of a usual size it finds nothing.
enum class Serves : uint8_t { kTraining, kInference, kBoth };
std::string_view name(Serves serves);

struct Pass;

struct PassContext {
  const OpTable& ops;
  const plan::Target& target;
  LoadGraph& load;  // file names to stored values; passes that change a weight's storage add to it
  // Of the target's machine, for predicted times in records; may be null
  const cost::Ceilings* ceilings = nullptr;
  std::span<const Pass* const> own = {};  // the target's, which run beside this room's
};

struct Pass {
  std::string_view name;
  Stage stage;
  Serves serves;
  std::string_view summary;  // one line for `ridge explain` and --help
  // What the pass gives up where planned bytes, launches, time or peak do not fall; empty when one
  // of them must.
  std::string_view trade;
  Graph (*run)(const Graph& graph, PassContext& context);
};

// A target that graphs are made for, with the passes that only it needs.
class PassTarget : public plan::Target {
 public:
  virtual std::span<const Pass* const> passes() const { return {}; }
};

}  // namespace ridge::passes
