// SPDX-License-Identifier: Apache-2.0
// Plans the graphs of a training step and counts them, at a level and after each of its passes.
#include "planning/step_plan.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "passes/pipeline.h"
#include "record/run_counts.h"

namespace ridge::planning {

record::RunRecord plan_step(const train::TrainingSetup& setup,
                            const train::TrainingStep& step,
                            const plan::Target& target,
                            const cost::Ceilings* ceilings) {
  record::RunRecord record = train::begin_record(setup, step.passes);
  std::vector<cost::ProgramGraph> graphs;
  for (const train::StepGraph& each : step.graphs)
    graphs.push_back(cost::program_graph(each.name, each.graph, each.repeat, target));
  record.step = record::make_step_record(record::count_graphs(graphs, ceilings, record), {});
  return record;
}

record::RunRecord plan_step(const train::TrainingSetup& setup,
                            const passes::PassTarget& target,
                            const cost::Ceilings* ceilings) {
  return plan_step(setup, train::build_step(setup, target), target, ceilings);
}

namespace {

// "activations 9.79 TiB, optimizer_state 7.52 GiB": the largest classes. Messages are one line.
std::string largest_classes(const record::MemoryRecord& memory) {
  constexpr size_t kShown = 3;
  std::vector<std::pair<int64_t, int>> order;
  for (int i = 0; i < plan::kMemoryClasses; ++i)
    order.emplace_back(memory.class_peaks().bytes[i], i);
  std::sort(order.rbegin(), order.rend());
  std::string text;
  for (size_t i = 0; i < kShown; ++i)
    text += fmt::format("{}{} {}", i > 0 ? ", " : "",
                        name(static_cast<plan::MemoryClass>(order[i].second)),
                        format_bytes(order[i].first));
  return text;
}

}  // namespace

int64_t expect_step_fits(const train::TrainingSetup& setup, const backends::Backend& backend) {
  const record::RunRecord planned = plan_step(setup, backend, nullptr);
  const int64_t available = backend.available_bytes();
  if (available > 0 && planned.memory.owned_bytes > available)
    throw memory_error(
        "[memory] {} needs {}, but this {} has {} left; the largest parts are {}; ridge plan with "
        "this model says which batch and length fit",
        planned.setting.str(), format_bytes(planned.memory.owned_bytes),
        setup.setting.device == "cuda" ? "GPU" : "machine", format_bytes(available),
        largest_classes(planned.memory));
  return planned.memory.owned_bytes;
}

std::vector<const passes::Pass*> added_passes(const passes::Selection& selection,
                                              const backends::Backend& backend) {
  const passes::Selection baseline("baseline", "");
  std::vector<const passes::Pass*> added;
  for (const passes::Pass* pass : passes::pipeline(backend.passes()))
    if (selection.has(pass->name) && !baseline.has(pass->name)) added.push_back(pass);
  return added;
}

std::vector<record::PassCost> pass_costs(const train::TrainingSetup& setup,
                                         const backends::Backend& backend,
                                         const cost::Ceilings& ceilings,
                                         const std::function<void(std::string_view)>& progress) {
  auto plan = [&](const std::string& switches) {
    train::TrainingSetup with = setup;
    with.selection = passes::Selection("baseline", switches);
    return plan_step(with, backend, &ceilings);
  };
  std::vector<record::PassCost> costs{{"", std::string(passes::levels()[0].summary), plan("")}};
  std::string on;
  for (const passes::Pass* pass : added_passes(setup.selection, backend)) {
    on += (on.empty() ? "+" : ",+") + setup.selection.spelling(pass->name);
    costs.push_back({std::string(pass->name), std::string(pass->summary), plan(on)});
    progress(pass->name);
  }
  return costs;
}

}  // namespace ridge::planning
