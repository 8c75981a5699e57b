// SPDX-License-Identifier: Apache-2.0
// Replaces ceilings and what was predicted with them.
#include "bench/ceiling_check.h"

#include <fmt/format.h>

#include <vector>

#include "base/error.h"
#include "planning/step_plan.h"
#include "record/beaten_ceilings.h"

namespace ridge::bench {
namespace {

std::vector<record::BeatenCeiling> beaten_by(const record::RunRecord& run,
                                             const cost::Ceilings& ceilings) {
  if (run.setting.task == "train")
    return beaten_ceilings(run.step, product_dtype(run.setting), ceilings);
  return record::beaten_ceilings(fmt::format("the {} of {}", run.setting.task, run.setting.str()),
                                 {run.amounts, run.cache_bytes, run.weight_bytes, run.step_ns()},
                                 ceilings);
}

// Those that the run beats first.
std::vector<record::BeatenCeiling> first_beaten(const record::LabRecord& lab) {
  for (const record::RunRecord& run : lab.runs)
    if (auto beaten = beaten_by(run, *lab.ceilings); !beaten.empty()) return beaten;
  return {};
}

// The counts of a run do not depend on ceilings; only predictions change.
void predict_again(const measure::TrainingExperiment& e,
                   const backends::Backend& backend,
                   const cost::Ceilings& ceilings,
                   record::RunRecord& run) {
  const train::TrainingStep step = train::build_step(e, backend, &ceilings);
  const record::RunRecord planned = planning::plan_step(e, step, backend, &ceilings);
  run.passes = planned.passes;
  run.predicted_ns = planned.predicted_ns;
  if (const Summary rate = run.launch_rate(); rate.count > 0) {
    const cost::Ceilings now = cost::at_launch_rate(ceilings, rate.median);
    run.predicted_ns = planning::plan_step(e, step, backend, &now).predicted_ns;
  }
  RIDGE_CHECK(run.step.nodes.size() == planned.step.nodes.size(), "{} has {} nodes, planned {}",
              run.setting.str(), run.step.nodes.size(), planned.step.nodes.size());
  for (size_t i = 0; i < run.step.nodes.size(); ++i) {
    record::NodeRecord& node = run.step.nodes[i];
    const record::NodeRecord& anew = planned.step.nodes[i];
    node.predicted_ns = anew.predicted_ns;
    node.compute_ns = anew.compute_ns;
    node.memory_ns = anew.memory_ns;
    node.overhead_ns = anew.overhead_ns;
    node.bound = anew.bound;
  }
}

}  // namespace

bool raise_ceilings(record::LabRecord& lab) {
  std::vector<record::BeatenCeiling> beaten;
  bool is_any = false;
  // Every pass raises what one run beats.
  while (!(beaten = first_beaten(lab)).empty()) {
    for (const record::BeatenCeiling& each : beaten)
      lab.warnings.push_back(each.str() + ", so that was raised to what it reached");
    *lab.ceilings = raised(*std::move(lab.ceilings), beaten);
    is_any = true;
  }
  return is_any;
}

bool correct_ceilings(const CeilingCheck& check, record::LabRecord& lab) {
  const std::vector<record::BeatenCeiling> beaten = first_beaten(lab);
  if (beaten.empty()) return false;
  lab.warnings.push_back(
      fmt::format("{}, so the ceilings were measured again after the runs", beaten.front().str()));
  *lab.ceilings = check.measure();
  raise_ceilings(lab);
  for (record::RunRecord& run : lab.runs) {
    const measure::TrainingExperiment e = check.experiment(run);
    predict_again(e, *check.make_backend(e), *lab.ceilings, run);
  }
  return true;
}

}  // namespace ridge::bench
