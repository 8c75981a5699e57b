// SPDX-License-Identifier: Apache-2.0
// Stepping and filling the record.
#include "train/experiment.h"

#include <malloc.h>

#include <chrono>

#include "base/error.h"
#include "ops/registry.h"
#include "perf/planner.h"
#include "perf/predict.h"
#include "perf/process_memory.h"
#include "perf/step_record.h"

namespace ridge::train {
namespace {

// One graph of a step with everything that its counts need.
struct Costed {
  std::string name;
  int64_t repeat = 1;
  const Graph* graph = nullptr;
  const std::vector<perf::Place>* places = nullptr;
  const perf::MemoryPlan* plan = nullptr;
  const std::vector<perf::NodeCost>* costs = nullptr;
};

Work times(int64_t n, const Work& work) {
  return {n * work.macs, n * work.flops, n * work.transcendentals};
}

// Fills the counts; returns the graphs as the step record wants them.
std::vector<perf::MeasuredGraph> count(const std::vector<Costed>& graphs,
                                       const perf::Ceilings* ceilings,
                                       perf::RunRecord& record) {
  std::vector<perf::MeasuredGraph> measured;
  std::vector<perf::PlannedGraph> planned;
  for (const Costed& each : graphs) {
    perf::NodeCost cost = perf::total(*each.costs);
    perf::ModelTotals model = perf::model_totals(*each.graph);
    record.model.forward += times(each.repeat, model.forward);
    record.model.backward += times(each.repeat, model.backward);
    record.model.optimizer += times(each.repeat, model.optimizer);
    record.executed += times(each.repeat, cost.work);
    record.planned_bytes += each.repeat * cost.bytes();
    record.compulsory_bytes += each.repeat * perf::compulsory_bytes(*each.graph, *each.places, "");
    record.launches += each.repeat * cost.launches;
    measured.push_back({each.name, each.repeat, each.graph, each.costs, {}});
    planned.push_back({each.name, each.graph, each.plan});
    if (ceilings == nullptr) continue;
    measured.back().predictions =
        perf::predict_nodes(*each.graph, *each.places, *each.plan, *each.costs, *ceilings);
    record.predicted_ns +=
        static_cast<double>(each.repeat) * perf::total_ns(measured.back().predictions);
  }
  record.memory = perf::planned_memory(planned);
  return measured;
}

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

// The cost of one reading of the clock that times kernels.
double clock_reading_ns() {
  constexpr int kReadings = 10'000;
  using Clock = std::chrono::steady_clock;
  Clock::time_point begin = Clock::now(), end = begin;
  for (int i = 0; i < kReadings; ++i) end = Clock::now();
  return std::chrono::duration<double, std::nano>(end - begin).count() / kReadings;
}

// Freed pages that the allocator keeps would be counted as ours.
perf::ProcessMemory settled_memory() {
  ::malloc_trim(0);
  return perf::read_process_memory();
}

}  // namespace

perf::RunRecord run_experiment(const Experiment& e,
                               backends::Backend& backend,
                               const perf::Ceilings* ceilings,
                               const StepListener& listener,
                               const TrainedListener& trained) {
  if (e.steps < 1) throw usage_error("[steps] expected at least 1, got {}", e.steps);
  if (e.warmup_steps < 0) throw usage_error("[warmup] expected at least 0, got {}", e.warmup_steps);
  // Built once more for the predictions in the pass records: a trainer knows no ceilings.
  std::vector<perf::PassRecord> passes =
      build_step(e.config, e.step, e.selection, ops::table(), backend, ceilings).passes;
  // An instrument that is to see inside recordings attaches before they are made.
  if (e.instrument) backend.instrument();
  perf::ProcessMemory before = settled_memory();
  Trainer trainer(e.config, e.step, e.selection, backend);
  perf::RunRecord record = begin_record(e.setting, e.config, e.step, passes);
  std::vector<Costed> costed;
  for (int i = 0; i < trainer.program().stages(); ++i) {
    const runtime::Stage& stage = trainer.program().stage(i);
    costed.push_back(
        {stage.name, stage.repeat, &stage.graph, &stage.places, &stage.plan, &stage.costs});
  }
  std::vector<perf::MeasuredGraph> graphs = count(costed, ceilings, record);
  record.memory.before = before;
  record.memory.foreign_bytes = before.resident_bytes;
  record.memory.allocated_bytes = trainer.owned_bytes();
  settled_memory();
  record.memory.peak_was_reset = perf::reset_peak_memory();

  auto take = [&](int64_t index, bool instrumented) {
    StepResult result = trainer.step(instrumented);
    if (listener) listener({index, instrumented, result});
    return result;
  };
  for (int64_t i = 0; i < e.warmup_steps; ++i) take(i - e.warmup_steps, false);
  std::vector<perf::InstrumentedStep> steps;
  for (int64_t i = 0; i < e.steps; ++i) {
    bool instrumented = e.instrument && (i % 4 == 1 || i % 4 == 2);
    StepResult result = take(i, instrumented);
    record.losses.push_back(result.loss);
    if (instrumented)
      steps.push_back({std::move(result.profiles), result.elapsed_ns});
    else
      record.plain_wall_ns.push_back(result.elapsed_ns);
  }
  record.memory.after = perf::read_process_memory();
  // One reading before and one after each call.
  if (!steps.empty()) record.clock_ns = clock_reading_ns() * 2 * static_cast<double>(record.launches);
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
  std::vector<Costed> costed;
  for (size_t i = 0; i < step.graphs.size(); ++i)
    costed.push_back({step.graphs[i].name, step.graphs[i].repeat, &step.graphs[i].graph, &places[i],
                      &plans[i], &costs[i]});
  std::vector<perf::MeasuredGraph> graphs = count(costed, ceilings, record);
  record.step = perf::make_step_record(graphs, {});
  return record;
}

}  // namespace ridge::train
