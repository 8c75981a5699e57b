// SPDX-License-Identifier: Apache-2.0
// Builds, plans and runs one attention composite.
#include "bench/attention_trial.h"

#include <malloc.h>

#include <algorithm>
#include <cmath>

#include "base/clock.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/random.h"
#include "base/units.h"
#include "cost/predict.h"
#include "cost/resource_plan.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "passes/pipeline.h"
#include "runtime/program.h"

namespace ridge::bench {
namespace {

constexpr const char* kInputs[] = {"q", "k", "v"};

Graph build(const AttentionTrial& trial, bool flash, const plan::Target& target) {
  Graph graph;
  Builder b(graph, ops::table());
  Type heads{DType::kF32, {trial.sequence, trial.heads, trial.head_size}}, shared = heads;
  shared.shape = {trial.sequence, 1, trial.head_size};
  ValueId q = b.input(kInputs[0], heads), k = b.input(kInputs[1], shared),
          v = b.input(kInputs[2], shared);
  graph.outputs = {b.call("attention", {q, k, v},
                          {{"sequence", trial.sequence},
                           {"causal", true},
                           {"window", int64_t{0}},
                           {"scale", 1 / std::sqrt(static_cast<double>(trial.head_size))}})};
  LoadGraph load;
  passes::PassContext context{ops::table(), target, load};
  passes::Selection selection("baseline", flash ? "+flash_attention" : "");
  for (passes::Stage stage :
       {passes::Stage::kForward, passes::Stage::kStep, passes::Stage::kTarget})
    graph = passes::run_stage(stage, graph, selection, context, nullptr);
  return graph;
}

record::AttentionForm plan_form(const Graph& graph,
                                const plan::Target& target,
                                const cost::Ceilings* ceilings) {
  const cost::CostedGraph costed = cost::count(plan::plan(graph, target));
  const cost::NodeCost sum = cost::total(costed.costs);
  record::AttentionForm form;
  form.launches = sum.launches;
  form.planned_bytes = sum.bytes();
  form.arena_bytes = costed.memory.arena_bytes;
  form.owned_bytes = costed.memory.owned_bytes();
  if (ceilings != nullptr)
    form.predicted_ns = cost::total_ns(cost::predict_nodes(costed, *ceilings));
  return form;
}

void fill(runtime::Store& store) {
  Random random(1);
  for (const char* input : kInputs) {
    std::vector<float> values(static_cast<size_t>(store.type(input).shape.elements()));
    random.fill_normal(values, 1);
    store.write(input, values.data(), static_cast<int64_t>(values.size() * sizeof(float)));
  }
}

// If one run takes longer than the budget, it is the only one.
void run(Graph graph, double budget_ns, backends::Backend& backend, record::AttentionForm& form) {
  constexpr int kMost = 20;
  ::malloc_trim(0);
  bool is_measured = reset_peak_memory();
  int64_t before = backend.taken_memory().resident_bytes;
  {
    runtime::Store store(backend);
    runtime::Program program(backend, store);
    program.add("attention", std::move(graph));
    program.bind();
    fill(store);
    auto once = [&program] {
      double start = now_ns();
      program.run(0);
      program.wait();
      return now_ns() - start;
    };
    double begin = now_ns();
    std::vector<double> samples{once()};
    if (samples[0] < budget_ns) samples.clear();  // it was the warm-up
    while (samples.empty() || (samples.size() < kMost && now_ns() - begin < budget_ns))
      samples.push_back(once());
    form.time = summarize(samples);
    if (is_measured)
      form.measured_bytes = std::max<int64_t>(0, backend.taken_memory().peak_bytes - before);
  }
  ::malloc_trim(0);
}

std::string why_not(const record::AttentionForm& form, const AttentionLimits& limits) {
  if (form.owned_bytes > limits.memory_bytes)
    return fmt::format("needs {}, limit {}", format_bytes(form.owned_bytes),
                       format_bytes(limits.memory_bytes));
  if (limits.time_ns > 0 && form.predicted_ns > limits.time_ns)
    return fmt::format("would take {}", format_ns(form.predicted_ns));
  return "";
}

}  // namespace

record::AttentionRecord try_attention(const AttentionTrial& trial,
                                      const AttentionLimits& limits,
                                      backends::Backend& backend,
                                      const cost::Ceilings* ceilings) {
  record::AttentionRecord record{trial.heads, trial.head_size, trial.sequence, {}, {}};
  for (bool flash : {false, true}) {
    record::AttentionForm& form = flash ? record.flash : record.standard;
    Graph graph = build(trial, flash, backend);
    form = plan_form(graph, backend, ceilings);
    form.skipped = why_not(form, limits);
    if (form.skipped.empty()) run(std::move(graph), limits.budget_ns, backend, form);
  }
  return record;
}

record::AttentionReach standard_reach(const AttentionTrial& trial,
                                      int64_t memory_bytes,
                                      const plan::Target& target) {
  constexpr int64_t kMost = int64_t{1} << 22;
  AttentionTrial longer = trial;
  int64_t reach = cost::largest_fitting(memory_bytes, kMost, [&](int64_t sequence) {
    longer.sequence = std::max<int64_t>(sequence, 1);
    return plan_form(build(longer, false, target), target, nullptr).owned_bytes;
  });
  return {trial.head_size, memory_bytes, reach};
}

}  // namespace ridge::bench
