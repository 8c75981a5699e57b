// SPDX-License-Identifier: Apache-2.0
// Stepping and filling the record.
#include "train/experiment.h"

#include <malloc.h>

#include "base/error.h"
#include "perf/planner.h"
#include "perf/process_memory.h"
#include "perf/run_counts.h"
#include "perf/step_record.h"

namespace ridge::train {
namespace {

perf::RunRecord begin_record(const perf::Setting& setting,
                             const models::ModelConfig& config,
                             const StepOptions& options,
                             const std::vector<perf::PassRecord>& passes) {
  perf::RunRecord record;
  record.setting = setting;
  record.setting.batch_size = options.batch_size;
  record.setting.sequence = options.sequence;
  record.setting.micro_batches = options.micro_batches;
  record.parameters = config.parameters();
  record.passes = passes;
  return record;
}

// Freed pages that the allocator keeps would be counted as ours.
perf::ProcessMemory settled_memory(const backends::Backend& backend) {
  ::malloc_trim(0);
  return backend.taken_memory();
}

}  // namespace

perf::RunRecord run_experiment(const Experiment& e,
                               backends::Backend& backend,
                               const perf::Ceilings* ceilings,
                               const StepListener& listener,
                               const TrainedListener& trained) {
  if (e.steps < 1) throw usage_error("[steps] expected at least 1, got {}", e.steps);
  if (e.warmup_steps < 0) throw usage_error("[warmup] expected at least 0, got {}", e.warmup_steps);
  // An instrument that is to see inside recordings attaches before they are made.
  if (e.instrument) backend.instrument();
  perf::ProcessMemory before = settled_memory(backend);
  Trainer trainer(e.config, e.step, e.selection, backend, ceilings);
  perf::RunRecord record = begin_record(e.setting, e.config, e.step, trainer.graphs().passes);
  std::vector<perf::CountedGraph> counted;
  for (int i = 0; i < trainer.program().stages(); ++i) {
    const runtime::Stage& stage = trainer.program().stage(i);
    counted.push_back(
        {stage.name, stage.repeat, &stage.graph, &stage.places, &stage.plan, &stage.costs});
  }
  std::vector<perf::MeasuredGraph> graphs = perf::count_graphs(counted, backend, ceilings, record);
  record.memory.before = before;
  record.memory.foreign_bytes = before.resident_bytes;
  record.memory.allocated_bytes = trainer.owned_bytes();
  settled_memory(backend);
  record.memory.peak_was_reset = perf::reset_peak_memory();

  std::vector<perf::InstrumentedStep> steps;
  int64_t begun = -e.warmup_steps, finished = begun;
  auto is_instrumented = [&](int64_t i) {
    return e.instrument && i >= 0 && (i % 4 == 1 || i % 4 == 2);
  };
  auto finish = [&](StepResult result) {
    int64_t index = finished++;
    bool instrumented = is_instrumented(index);
    if (listener) listener({index, instrumented, result});
    if (index < 0) return;
    record.losses.push_back(result.loss);
    if (instrumented)
      steps.push_back({std::move(result.profiles), result.elapsed_ns});
    else
      record.plain_wall_ns.push_back(result.elapsed_ns);
  };
  // The device never waits for the host between plain steps. Steps that others are compared with
  // begin when the one before is done, as those do.
  const int64_t ahead = e.instrument ? 1 : 2;
  while (finished < e.steps) {
    if (is_instrumented(begun)) {
      ++begun;
      finish(trainer.step(true));
      continue;
    }
    for (; begun < e.steps && begun - finished < ahead; ++begun) trainer.begin_step();
    finish(trainer.finish_step());
  }
  record.memory.after = backend.taken_memory();
  // One reading before and one after each call.
  if (!steps.empty())
    record.clock_ns = perf::clock_reading_ns() * 2 * static_cast<double>(record.launches);
  record.step = perf::make_step_record(graphs, steps);
  if (trained) trained(trainer);
  return record;
}

perf::RunRecord planned_run(const perf::Setting& setting,
                            const models::ModelConfig& config,
                            const StepOptions& options,
                            const TrainingStep& step,
                            const perf::Target& target,
                            const perf::Ceilings* ceilings) {
  perf::RunRecord record = begin_record(setting, config, options, step.passes);
  std::vector<std::vector<perf::Place>> places;
  std::vector<perf::MemoryPlan> plans;
  std::vector<std::vector<perf::NodeCost>> costs;
  for (const StepGraph& each : step.graphs) {
    places.push_back(perf::places(each.graph, &target));
    plans.push_back(perf::plan_memory(each.graph, places.back(), target));
    costs.push_back(perf::node_costs(each.graph, places.back(), &target));
  }
  std::vector<perf::CountedGraph> counted;
  for (size_t i = 0; i < step.graphs.size(); ++i)
    counted.push_back({step.graphs[i].name, step.graphs[i].repeat, &step.graphs[i].graph,
                       &places[i], &plans[i], &costs[i]});
  std::vector<perf::MeasuredGraph> graphs = perf::count_graphs(counted, target, ceilings, record);
  record.step = perf::make_step_record(graphs, {});
  return record;
}

}  // namespace ridge::train
