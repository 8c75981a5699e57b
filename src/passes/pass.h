// SPDX-License-Identifier: Apache-2.0
// Defines Pass and the context that it runs in. Each pass is one file: in src/passes if any target
// may use it, in src/backends/BACKEND/passes if only that backend uses it. passes.h lists all of
// them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "cost/ceilings.h"
#include "graph/graph.h"
#include "graph/load_graph.h"
#include "passes/lora.h"
#include "plan/target.h"

namespace ridge::passes {

// When a pass runs: on the model's forward graph, on the whole step (forward, backward, optimizer),
// or last, to make the graph fit the target.
enum class Stage : uint8_t { kForward, kStep, kTarget };
std::string_view name(Stage stage);

// The kind of graph that a pass is for. In graphs of the other kind, at usual sizes, it finds
// nothing to rewrite.
enum class Serves : uint8_t { kTraining, kInference, kBoth };
std::string_view name(Serves serves);

struct Pass;

struct PassContext {
  const OpTable& ops;
  const plan::Target& target;
  LoadGraph& load;  // file tensors to stored values; passes that change storage add to it
  // Ceilings of the target's machine, used for predicted times in records; may be null.
  const cost::Ceilings* ceilings = nullptr;
  std::span<const Pass* const> own = {};  // the target's passes, run with those of src/passes
  LoraOptions lora = {};
  // The pass that runs has this number if it was switched on with one: "+recompute=4".
  std::optional<int64_t> number = {};
  // The ranks that share out a training, and this process's number among them. Only the load graph
  // may depend on the number: every rank runs the same graphs.
  int64_t rank = 0, ranks = 1;
};

struct Pass {
  std::string_view name;
  Stage stage;
  Serves serves;
  std::string_view summary;  // one line for `ridge explain` and --help
  // Says what the pass gives up if none of planned bytes, launches, time and peak memory falls;
  // empty if one of them must fall.
  std::string_view trade;
  Graph (*run)(const Graph& graph, PassContext& context);
};

// A target of the pass pipeline, with the passes that only it needs.
class PassTarget : public plan::Target {
 public:
  virtual std::span<const Pass* const> passes() const { return {}; }
};

}  // namespace ridge::passes
