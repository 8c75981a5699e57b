// SPDX-License-Identifier: Apache-2.0
// Plans, fills and times one graph: the base of all of `ridge bench` and of the demos.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "cost/costed_graph.h"
#include "graph/graph.h"
#include "graph/load_graph.h"
#include "passes/pipeline.h"
#include "record/bench_record.h"
#include "runtime/store.h"

namespace ridge::bench {

// A graph before any pass. Operands are inputs, parameters or states; the outputs count as results.
struct TrialGraph {
  Graph graph;
  // Fills operands by name; the others get normally distributed numbers. Operands with a fill that
  // is not differentiable have no gradient.
  std::map<std::string, Fill> fills = {};
  // Parameters that are stored otherwise than in the graph; may be empty.
  LoadGraph load = {};
};

enum class Caches : uint8_t {
  kWarm,  // each run reads the same operands
  kCold,  // runs rotate over copies of the operands that no cache holds at once
};

struct TrialSetting {
  passes::Selection selection{"baseline", ""};
  bool is_backward = false;  // the gradients of all differentiable operands are computed too
  Caches caches = Caches::kWarm;
  double budget_ns = 5e8;  // for all samples
  // Asked between samples: whether to stop. A trial that was stopped has no time.
  std::function<bool()> is_stopped = [] { return false; };
  // The trial may own so many; 0: as many as the backend has left.
  int64_t memory_bytes = 0;
  bool is_profiled = false;  // the point also gets a profile; only with warm caches
};

// The graph after the passes of the setting, and how its parameters are loaded. With is_backward,
// each output gets an input "gradient.I", and the gradients of the operands are outputs after the
// graph's own.
struct PreparedGraph {
  Graph graph;
  LoadGraph load;
  std::vector<std::string> differentiated = {};  // the operands that have a gradient, in its order
};
PreparedGraph prepare(const TrialGraph& trial,
                      const TrialSetting& setting,
                      const passes::PassTarget& target);

// The counts and the prediction of a prepared graph. `ceilings` may be null.
record::BenchPoint plan_point(const cost::CostedGraph& costed, const cost::Ceilings* ceilings);

// Counts and predicts on a target that runs nothing. Points of unsupported graphs have `refused`.
record::BenchPoint plan_trial(const TrialGraph& trial,
                              const TrialSetting& setting,
                              const passes::PassTarget& target,
                              const cost::Ceilings* ceilings);

// Also takes the time per run on random data. Without ceilings (null) nothing is predicted, and
// caches are cold only as far as an unknown cache is filled. A graph that needs more memory than
// there is, by plan, is refused before anything is allocated.
record::BenchPoint run_trial(const TrialGraph& trial,
                             const TrialSetting& setting,
                             backends::Backend& backend,
                             const cost::Ceilings* ceilings);

// Random data for one operand; large operands repeat a run of a few million elements.
void fill_operand(runtime::Store& store, const std::string& name, const Fill& fill);

// The types of the graph's operands, "f32[8,64], f32[64]", cut after a few.
std::string operand_types(const Graph& graph);

// Times `once`, which is called until the budget is spent: at least 7 times, unless that takes more
// than three budgets. `wait` is called after each sample, and `between` before it, which is not
// timed. No samples if it was stopped.
Summary time_repeatedly(
    const std::function<void()>& once,
    const std::function<void()>& wait,
    double budget_ns,
    const std::function<bool()>& is_stopped,
    const std::function<void()>& between = [] {});

}  // namespace ridge::bench
