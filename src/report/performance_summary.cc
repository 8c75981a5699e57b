// SPDX-License-Identifier: Apache-2.0
// Builds performance_summary.json.
#include "report/performance_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "record/operation_table.h"
#include "record/summary_file.h"
#include "report/json_text.h"
#include "report/rate_shares.h"

namespace ridge::report {
namespace {

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

// Adds the fields that only inference has.
void add_inference(const record::LabRecord& lab, const record::RunRecord& run, Json& json) {
  const cost::ReferenceRate reads = mbu_reference(lab);
  json["mbu"] = run.mbu(reads);
  json["mbu_reason"] = mbu_reason(lab, run);  // empty up to 100%
  json["mbu_convention"] = record::kMbuConvention;
  json["mbu_peak"] = to_json(reads);
  if (lab.ceilings)
    json["rate_shares"] = to_json(rate_shares(run, *lab.ceilings), run.setting.task == "decode");
  add(json, to_json(run), "weight_bytes cache_bytes");
  json["logits_difference"] = logits_difference(reference_run(lab, run), run);
  json["modules"] = value_json(run.modules);
}

Json run_json(const record::LabRecord& lab, const record::RunRecord& run) {
  const Summary cost = run.profiling_cost();
  const Json all = to_json(run);
  Json json;
  add(json, all,
      "setting parameters step forward backward optimizer predicted_step_ns=predicted_ns "
      "launch_rate samples_per_s tokens_per_s");
  json["speed_up"] = speed_up(lab, run);
  add(json, all, "kernel_calls planned_bytes compulsory_bytes model_flops_per_s");
  json["mfu"] = run.mfu(mfu_reference(lab, run.setting));
  json["mfu_convention"] = record::kMfuConvention;
  json["mfu_peak"] = to_json(mfu_reference(lab, run.setting));
  add(json["memory"], all,
      "owned_bytes allocated_bytes arena_bytes foreign_bytes predicted_peak_bytes "
      "measured_peak_bytes measured_resident_bytes peak_is_of_the_steps_alone");
  json["profiling_cost"] = {{"counted", run.clock_cost()},
                            {"measured", cost.median},
                            {"measured_low", cost.low},
                            {"measured_high", cost.high},
                            {"of_run", run.profiling_cost_of_run()}};
  add(json, all, "attribution");
  json["hardware_counts"] = to_json(run.counts);
  add(json, all, "step_samples_ns");
  if (run.setting.task != "train") add_inference(lab, run, json);
  if (!run.losses.empty()) json["loss"] = loss_json(reference_run(lab, run), run);
  json["passes"] = value_json(run.passes);
  return json;
}

}  // namespace

std::string performance_summary(const record::LabRecord& lab) {
  Json json = heading(lab);
  json["version"] = record::kSummaryVersion;
  if (lab.ceilings) json["roofs"] = roofs_json(*lab.ceilings);
  json["intervals"] =
      "order statistics: the interval contains the true median with the probability in coverage";
  json["operation_times"] =
      fmt::format("time_ns: {}; exclusive_ns: {}", record::kTime.says, record::kExclusive.says);
  Json& runs = json["runs"] = Json::array();
  for (size_t i = 0; i < lab.runs.size(); ++i) {
    Json run = run_json(lab, lab.runs[i]);
    if (std::find(lab.detailed.begin(), lab.detailed.end(), i) != lab.detailed.end()) {
      const record::StepRecord& step = lab.runs[i].step;
      for (const record::OperationTable& table :
           {table_by_op(step, lab.limits()), table_by_kind(step, lab.limits()),
            table_by_scope(step, lab.limits()), table_by_phase(step, lab.limits())}) {
        Json& rows = run["operations"]["by_" + table.title] = Json::array();
        for (const record::OperationRow& row : table.rows) {
          rows.push_back(to_json(row));
          if (table.title == "scope") rows.back()["depth"] = row.depth;
        }
      }
      run["operations"]["total"] = to_json(table_by_op(step, lab.limits()).total);
    }
    runs.push_back(std::move(run));
  }
  json["advice"] = value_json(lab.advice);
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
