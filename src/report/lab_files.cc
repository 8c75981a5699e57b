// SPDX-License-Identifier: Apache-2.0
// Builds the JSON files of a lab, one after the other.
#include "report/lab_files.h"

#include <fmt/format.h>

#include <algorithm>

#include "record/operation_table.h"
#include "record/summary_file.h"
#include "report/json_text.h"
#include "report/rate_shares.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

Json loss_json(const record::RunRecord& reference, const record::RunRecord& run) {
  Json json = {{"first", run.losses.front()},
               {"last", run.losses.back()},
               {"mean", run.mean_loss()},
               {"all", run.losses},
               {"max_abs_difference", loss_difference(reference, run)},
               {"agrees", losses_agree(reference, run)}};
  if (!run.validations.empty()) json["validation"] = value_json(run.validations);
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
    json["rate_shares"] =
        to_json(record::PhaseShares{run.setting.task == "decode", rate_shares(run, *lab.ceilings)});
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
  json["step_phases"] = value_json(run.step.phases());
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
  const bool is_another = !lab.runs.empty() && is_of_another_program(lab.runs[0]);
  json["operation_times"] =
      fmt::format("time_ns: {}; exclusive_ns: {}",
                  is_another ? "of the step with the median wall time" : record::kTime.says,
                  record::kExclusive.says);
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

namespace {

Json flops_json(const record::LabRecord& lab, const record::RunRecord& run) {
  const cost::ReferenceRate peak = mfu_reference(lab, run.setting);
  double parameters = static_cast<double>(run.parameters);
  double tokens = static_cast<double>(run.setting.tokens());
  double step_flops = static_cast<double>(run.palm_flops());
  double executed_flops = static_cast<double>(run.executed.flops);
  double executed_per_s = run.wall().median > 0 ? executed_flops * 1e9 / run.wall().median : 0;
  return {{"setting", to_json(run.setting)},
          {"parameters", run.parameters},
          {"model",
           {{"forward", to_json(run.model.forward)},
            {"backward", to_json(run.model.backward)},
            {"optimizer", to_json(run.model.optimizer)},
            {"total", to_json(run.model.step())},
            {"total_counts",
             "forward and backward, the same for every set of passes; the optimizer is separate"}}},
          {"executed",
           {{"total", to_json(run.executed)},
            {"total_counts",
             "what the kernels did: without masked tiles, with recomputation and optimizer"},
            {"flops_per_s", executed_per_s}}},
          {"total_flops", run.model.step().flops},
          {"total_macs", run.model.step().macs},
          {"flops_per_parameter", static_cast<double>(run.model.step().flops) / parameters},
          {"flops_per_token", static_cast<double>(run.model.step().flops) / tokens},
          {"flops_per_parameter_and_token", step_flops / (parameters * tokens)},
          {"mfu",
           {{"value", run.mfu(peak)},
            {"convention", record::kMfuConvention},
            {"model_flops", run.palm_flops()},
            {"model_flops_per_s", run.palm_flops_per_s()},
            {"device_peak_flops_per_s", peak.per_ns * 1e9},
            {"device_peak_dtype", name(product_dtype(run.setting))},
            {"device_peak_source", peak.source},
            {"data_sheet_flops_per_s", peak.data_sheet_per_ns * 1e9}}},
          {"hfu", peak.per_ns > 0 ? executed_per_s / (peak.per_ns * 1e9) : 0},
          {"hfu_convention", "executed FLOPs of all kernels over the same peak"}};
}

}  // namespace

std::string flops_profile(const record::LabRecord& lab) {
  Json json = heading(lab);
  json["unit"] = "1 MAC = 2 FLOPs; counts are for one training step";
  json["runs"] = json_list(lab.runs, [&](const auto& run) { return flops_json(lab, run); });
  return json_text(json);
}

namespace {

Json row_json(const record::OperationRow& row, const cost::Ceilings* ceilings, DType dtype) {
  Json json = to_json(row, "key flops");
  json["bytes"] = row.bytes();
  add(json, to_json(row), "flops_per_byte flops_per_s bytes_per_s bound");
  if (ceilings != nullptr && row.intensity() > 0) {
    const cost::Roof roof = cost::roof(*ceilings, dtype, row.work, row.bytes());
    json["roof"] = roof.name;
    json["attainable_flops_per_s"] = roof.flops_per_ns * 1e9;
    json["share_of_attainable"] = record::ratio(row.flops_per_ns(), roof.flops_per_ns);
  }
  return json;
}

Json intensity_json(const record::LabRecord& lab, const record::RunRecord& run) {
  DType dtype = product_dtype(run.setting);
  Json json = to_json(run, "setting planned_bytes compulsory_bytes");
  json["flops_per_planned_byte"] = record::ratio(run.executed.flops, run.planned_bytes);
  json["flops_per_compulsory_byte"] = record::ratio(run.executed.flops, run.compulsory_bytes);
  if (lab.ceilings) json["ridge_point_flops_per_byte"] = cost::ridge_point(*lab.ceilings, dtype);
  for (const record::OperationTable& table :
       {table_by_op(run.step, lab.limits()), table_by_scope(run.step, lab.limits())}) {
    json["by_" + table.title] =
        json_list(table.rows, [&](const auto& row) { return row_json(row, lab.limits(), dtype); });
  }
  return json;
}

}  // namespace

std::string computational_intensity(const record::LabRecord& lab) {
  Json json = heading(lab);
  json["bytes"] =
      "planned: each operand of each kernel once; compulsory: the inputs and outputs of the graph "
      "once";
  json["roof"] =
      "attainable rates assume operands in memory; operations with operands in a cache may exceed "
      "them";
  json["runs"] =
      json_list(lab.detailed, [&](size_t index) { return intensity_json(lab, lab.runs[index]); });
  return json_text(json);
}

namespace {

Json memory_run_json(const record::RunRecord& run) {
  const Json all = to_json(run.memory);
  Json json = {{"setting", to_json(run.setting)}};
  add(json, all,
      "owned_bytes arena_bytes allocated_bytes live_peak_bytes store_bytes peak_by_class_bytes");
  add(json["process"], all,
      "foreign_bytes predicted_peak_bytes measured_peak_bytes measured_resident_bytes "
      "peak_is_of_the_steps_alone");
  if (const record::MemoryPoint* peak = run.memory.peak()) json["peak_at"] = to_json(*peak);
  json["tensors_at_peak"] = value_json(run.memory.at_peak);
  json["timeline"] = value_json(run.memory.timeline);
  return json;
}

}  // namespace

std::string memory_json(const record::LabRecord& lab) {
  Json json = heading(lab);
  json["conventions"] = {
      {"owned", "exact: the arena of temporaries and the store of parameters, states and inputs"},
      {"foreign",
       "resident before the first allocation: code, libraries, kernels generated at run time"},
      {"live",
       "what the schedule needs while the node runs; the arena is larger by the gaps of packing"}};
  json["runs"] = json_list(lab.runs, memory_run_json);
  return json_text(json);
}

}  // namespace ridge::report
