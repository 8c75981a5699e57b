// SPDX-License-Identifier: Apache-2.0
// Builds performance_summary.json.
#include "report/performance_summary.h"

#include <algorithm>

#include "record/operation_table.h"
#include "record/summary_file.h"
#include "report/hardware_counts.h"
#include "report/json_text.h"
#include "report/rate_shares.h"

namespace ridge::report {
namespace {

Json rows(const record::OperationTable& table) {
  Json json = Json::array();
  for (const record::OperationRow& row : table.rows) {
    Json each = to_json(row);
    if (table.title == "scope") each["depth"] = row.depth;
    json.push_back(std::move(each));
  }
  return json;
}

Json memory(const record::MemoryRecord& memory) {
  return {{"owned_bytes", memory.owned_bytes},
          {"allocated_bytes", memory.allocated_bytes},
          {"arena_bytes", memory.arena_bytes},
          {"foreign_bytes", memory.foreign_bytes},
          {"predicted_peak_bytes", memory.predicted_peak_bytes()},
          {"measured_peak_bytes", memory.after.peak_bytes},
          {"measured_resident_bytes", memory.after.resident_bytes},
          {"peak_is_of_the_steps_alone", memory.peak_was_reset}};
}

Json attribution(const record::StepRecord& step) {
  return {{"wall_ns", step.wall_ns},
          {"kernel_ns", step.kernel_ns},
          {"overlapped_ns", step.overlapped_ns},
          {"idle_ns", step.idle_ns},
          {"busy_ns", step.busy_ns()},
          {"computing_ns", step.exclusive_ns(true)},
          {"moving_data_ns", step.exclusive_ns(false)},
          {"idle_before_first_ns", step.idle_before_first_ns},
          {"host_ns", step.host_ns},
          {"attributed_share", step.wall_ns > 0 ? static_cast<double>(step.busy_ns()) /
                                                      static_cast<double>(step.wall_ns)
                                                : 0},
          {"instrumented_steps", step.wall_samples_ns.size()},
          {"dropped_records", step.dropped}};
}

Json pass_json(const cost::PassRecord& pass) {
  auto cost = [](const cost::GraphCost& c) {
    return Json{{"nodes", c.nodes}, {"kernel_calls", c.launches}, {"flops", c.flops},
                {"bytes", c.bytes}, {"peak_bytes", c.peak_bytes}, {"predicted_ns", c.predicted_ns}};
  };
  return {{"name", pass.name},         {"stage", pass.stage},
          {"trade", pass.trade},       {"before", cost(pass.before)},
          {"after", cost(pass.after)}, {"elapsed_ns", pass.elapsed_ns}};
}

Json loss_json(const record::RunRecord& reference, const record::RunRecord& run) {
  Json json = {{"first", run.losses.front()},
               {"last", run.losses.back()},
               {"mean", run.mean_loss()},
               {"all", run.losses},
               {"max_abs_difference", loss_difference(reference, run)},
               {"agrees", losses_agree(reference, run)}};
  if (run.loss_scale > 0)
    json["scaling"] = {{"loss_scale", run.loss_scale}, {"skipped_steps", run.overflows}};
  return json;
}

Json module_json(const record::ModuleRecord& m) {
  return {{"name", m.name},
          {"macs", m.work.macs},
          {"flops", m.work.flops},
          {"planned_bytes", m.planned_bytes},
          {"compulsory_bytes", m.compulsory_bytes},
          {"flops_per_compulsory_byte", m.intensity()},
          {"kernel_calls", m.launches},
          {"time_ns", m.time_ns},
          {"predicted_ns", m.predicted_ns}};
}

// Adds the fields that only inference has.
void add_inference(const record::LabRecord& lab, const record::RunRecord& run, Json& json) {
  const cost::ReferenceRate reads = mbu_reference(lab);
  json["mbu"] = run.mbu(reads);
  json["mbu_reason"] = mbu_reason(lab, run);  // empty up to 100%
  json["mbu_convention"] = record::kMbuConvention;
  json["mbu_peak"] = to_json(reads);
  if (lab.ceilings)
    json["rate_shares"] = to_json(rate_shares(run, *lab.ceilings), run.setting.task == "decode");
  json["weight_bytes"] = run.weight_bytes;
  json["cache_bytes"] = run.cache_bytes;
  json["logits_difference"] = logits_difference(reference_run(lab, run), run);
  Json& modules = json["modules"] = Json::array();
  for (const record::ModuleRecord& module : run.modules) modules.push_back(module_json(module));
}

Json run_json(const record::LabRecord& lab, const record::RunRecord& run) {
  const Summary cost = run.profiling_cost();
  Json json = {{"setting", to_json(run.setting)},
               {"parameters", run.parameters},
               {"step", to_json(run.wall())},
               {"forward", to_json(run.step.forward)},
               {"backward", to_json(run.step.backward)},
               {"optimizer", to_json(run.step.optimizer)},
               {"predicted_step_ns", run.predicted_ns},
               {"launch_rate", run.launch_rate().median},
               {"samples_per_s", run.samples_per_s()},
               {"tokens_per_s", run.tokens_per_s()},
               {"speed_up", speed_up(lab, run)},
               {"kernel_calls", run.launches},
               {"planned_bytes", run.planned_bytes},
               {"compulsory_bytes", run.compulsory_bytes},
               {"model_flops_per_s", run.palm_flops_per_s()},
               {"mfu", run.mfu(mfu_reference(lab, run.setting))},
               {"mfu_convention", record::kMfuConvention},
               {"mfu_peak", to_json(mfu_reference(lab, run.setting))},
               {"memory", memory(run.memory)},
               {"profiling_cost",
                {{"counted", run.clock_cost()},
                 {"measured", cost.median},
                 {"measured_low", cost.low},
                 {"measured_high", cost.high},
                 {"of_run", run.profiling_cost_of_run()}}},
               {"attribution", attribution(run.step)},
               {"hardware_counts", to_json(run.counts)},
               {"step_samples_ns", run.plain_wall_ns}};
  if (run.setting.task != "train") add_inference(lab, run, json);
  if (!run.losses.empty()) json["loss"] = loss_json(reference_run(lab, run), run);
  Json& passes = json["passes"] = Json::array();
  for (const cost::PassRecord& pass : run.passes) passes.push_back(pass_json(pass));
  return json;
}

Json advice_json(const record::AdviceRecord& a) {
  return {{"title", a.title},
          {"reason", a.reason},
          {"command", a.command},
          {"predicted_gain", a.time_gain},
          {"predicted_memory_gain", a.memory_gain},
          {"predicted_before_ns", a.before_ns},
          {"predicted_after_ns", a.after_ns},
          {"owned_before_bytes", a.before_peak_bytes},
          {"owned_after_bytes", a.after_peak_bytes},
          {"same_training", a.is_same_training},
          {"confidence", a.confidence}};
}

}  // namespace

std::string performance_summary(const record::LabRecord& lab) {
  Json json = heading(lab);
  json["version"] = record::kSummaryVersion;
  if (lab.ceilings) json["roofs"] = roofs_json(*lab.ceilings);
  json["intervals"] =
      "order statistics: the interval contains the true median with the probability in coverage";
  json["operation_times"] =
      "time_ns: mean over the middle half of the instrumented steps, so rows add up; exclusive_ns: "
      "divides a moment in which kernels overlap equally among them";
  Json& runs = json["runs"] = Json::array();
  for (size_t i = 0; i < lab.runs.size(); ++i) {
    Json run = run_json(lab, lab.runs[i]);
    if (std::find(lab.detailed.begin(), lab.detailed.end(), i) != lab.detailed.end()) {
      const record::StepRecord& step = lab.runs[i].step;
      run["operations"] = {{"by_op", rows(table_by_op(step, lab.limits()))},
                           {"by_kind", rows(table_by_kind(step, lab.limits()))},
                           {"by_scope", rows(table_by_scope(step, lab.limits()))},
                           {"by_phase", rows(table_by_phase(step, lab.limits()))},
                           {"total", to_json(table_by_op(step, lab.limits()).total)}};
    }
    runs.push_back(std::move(run));
  }
  Json& advice = json["advice"] = Json::array();
  for (const record::AdviceRecord& each : lab.advice) advice.push_back(advice_json(each));
  Json& trials = json["trials"] = Json::array();
  for (const record::TrialRecord& trial : lab.trials)
    trials.push_back({{"advice", trial.advice.title},
                      {"predicted_gain", trial.advice.time_gain},
                      {"measured_gain", trial.measured_gain()},
                      {"clear_of_noise", trial.is_clear()},
                      {"verdict", trial.verdict()},
                      {"before", run_json(lab, trial.before)},
                      {"after", run_json(lab, trial.after)}});
  json["warnings"] = lab.warnings;
  return json_text(json);
}

}  // namespace ridge::report
