// SPDX-License-Identifier: Apache-2.0
// Plans the graphs of a training step and counts them.
#include "planning/step_plan.h"

#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "ops/registry.h"
#include "record/run_counts.h"
#include "report/tables.h"

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
  return plan_step(
      setup, train::build_step(setup.config, setup.step, setup.selection, ops::table(), target),
      target, ceilings);
}

int64_t expect_step_fits(const train::TrainingSetup& setup, const backends::Backend& backend) {
  const record::RunRecord planned = plan_step(setup, backend, nullptr);
  const int64_t available = backend.available_bytes();
  if (available > 0 && planned.memory.owned_bytes > available)
    throw memory_error("[memory] {} needs {}, but this {} has {} left\n\n{}", planned.setting.str(),
                       format_bytes(planned.memory.owned_bytes),
                       setup.setting.device == "cuda" ? "GPU" : "machine", format_bytes(available),
                       report::memory_table(planned.memory).text({}));
  return planned.memory.owned_bytes;
}

}  // namespace ridge::planning
