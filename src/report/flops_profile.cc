// SPDX-License-Identifier: Apache-2.0
// Builds flops_profile.json.
#include "report/performance_summary.h"

#include "report/json_text.h"

namespace ridge::report {
namespace {

Json run_json(const record::LabRecord& lab, const record::RunRecord& run) {
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
  json["runs"] = json_list(lab.runs, [&](const auto& run) { return run_json(lab, run); });
  return json_text(json);
}

}  // namespace ridge::report
