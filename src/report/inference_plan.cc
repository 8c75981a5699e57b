// SPDX-License-Identifier: Apache-2.0
// Plans of inference as text and JSON.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include "base/units.h"
#include "cost/predict.h"
#include "record/lab_record.h"
#include "record/plan_figures.h"
#include "report/json_text.h"
#include "report/plan_report.h"
#include "report/tables.h"

namespace ridge::report {
namespace {

using TypeBytes = std::map<DType, int64_t>;

cost::ReferenceRate peak(const record::InferencePlan& plan, const record::RunRecord& run) {
  return plan.hardware.ceilings.mfu_reference(record::product_dtype(run.setting));
}
// The model FLOPs are those of all ranks.
double mfu(const record::InferencePlan& plan, const record::RunRecord& run) {
  return run.mfu(peak(plan, run)) / static_cast<double>(plan.ranks);
}
double mbu(const record::InferencePlan& plan, const record::RunRecord& run) {
  return run.mbu(plan.hardware.ceilings.mbu_reference());
}

// "q4_1 and f32", largest first
std::string types_text(const TypeBytes& bytes) {
  std::vector<std::pair<int64_t, DType>> order;
  for (const auto& [dtype, size] : bytes) order.push_back({-size, dtype});
  std::sort(order.begin(), order.end());
  std::string text;
  for (size_t i = 0; i < order.size(); ++i)
    text += (i == 0                 ? ""
             : i + 1 < order.size() ? ", "
                                    : " and ") +
            std::string(name(order[i].second));
  return text;
}

Json types_json(const TypeBytes& bytes) {
  Json json = Json::object();
  for (const auto& [dtype, size] : bytes) json[std::string(name(dtype))] = size;
  return json;
}

Json phase_json(const record::InferencePlan& plan, const record::RunRecord& run) {
  const Json all = to_json(run);
  Json json;
  add(json, all, "predicted_ns tokens_per_s");
  add(json, all["setting"], "dtype");
  json.update({{"mfu", mfu(plan, run)},
               {"mfu_peak", to_json(peak(plan, run))},
               {"mbu", mbu(plan, run)},
               {"mbu_reason", run.mbu_reason(plan.hardware.ceilings)}});
  add(json, all,
      "model_flops model_macs executed_flops planned_bytes compulsory_bytes weight_bytes "
      "cache_bytes kernel_calls");
  return json;
}

bool fits(const record::InferencePlan& plan, const record::PhasePlan& each) {
  return plan.hardware.holds(static_cast<double>(each.owned_bytes));
}

std::string owned_text(const record::InferencePlan& plan, const record::PhasePlan& each) {
  return format_bytes(each.owned_bytes) + (fits(plan, each) ? "" : ", does not fit");
}

// Says above the times, which are those of a machine with more memory, how many do not fit.
std::string fit_warning(const record::InferencePlan& plan) {
  const auto unfit =
      std::count_if(plan.plans.begin(), plan.plans.end(),
                    [&](const record::PhasePlan& each) { return !fits(plan, each); });
  if (unfit == 0) return "";
  const auto& least =
      *std::min_element(plan.plans.begin(), plan.plans.end(),
                        [](const auto& a, const auto& b) { return a.owned_bytes < b.owned_bytes; });
  const std::string has = format_bytes(plan.hardware.memory_bytes);
  if (unfit == std::ssize(plan.plans))
    return fmt::format("DOES NOT FIT: the least needs {}, the hardware has {}\n",
                       format_bytes(least.owned_bytes), has);
  return fmt::format("{} of the {} plans below DO NOT FIT: the hardware has {}\n", unfit,
                     plan.plans.size(), has);
}

std::string times_text(const record::InferencePlan& plan, const TerminalOptions& terminal) {
  const cost::Ceilings& ceilings = plan.hardware.ceilings;
  // Where something does not fit, the column that says so stays.
  const std::string owned = fit_warning(plan).empty() ? "owned memory ?5" : "owned memory";
  Table table(
      "batch | length | TTFT | prefill tokens/s ?4 | MFU ?2 | TPOT | decode tokens/s ?3 | "
      "MBU ?1 | " +
      owned);
  std::set<std::string> reasons;
  for (const record::PhasePlan& each : plan.plans) {
    const record::RunRecord &prefill = each.records.prefill, &decode = each.records.decode;
    table.add({std::to_string(prefill.setting.batch_size), std::to_string(prefill.setting.sequence),
               format_ns(prefill.predicted_ns), format_count(prefill.tokens_per_s()),
               percent_cell(mfu(plan, prefill)), format_ns(decode.predicted_ns),
               format_count(decode.tokens_per_s()), percent_cell(mbu(plan, decode)),
               owned_text(plan, each)});
    reasons.insert(decode.mbu_reason(ceilings));
  }
  reasons.erase("");
  const record::RunRecord& first = plan.plans.front().records.prefill;
  std::string notes = fmt::format("MFU of prefill {}.\nMBU of decode {}.\n",
                                  peak(plan, first).str("FLOP/s", first.setting.dtype),
                                  ceilings.mbu_reference().str("B/s", ""));
  if (!reasons.empty()) notes += fmt::format("MBU over 100%: {}.\n", fmt::join(reasons, "; "));
  if (const std::string_view left_out = cost::left_out_of_inference(ceilings); !left_out.empty())
    notes += fmt::format("{}\n", left_out);
  return fmt::format("{}\n{}\n", table.text(terminal), wrap_lines(notes, terminal.columns));
}

// A column for each class of memory that has any; the smallest classes are left out first.
std::string memory_text(const record::InferencePlan& plan, const TerminalOptions& terminal) {
  int64_t largest[plan::kMemoryClasses] = {};
  for (const record::PhasePlan& each : plan.plans)
    for (int i = 0; i < plan::kMemoryClasses; ++i)
      largest[i] = std::max(largest[i], each.class_peaks().bytes[i]);
  std::vector<int> shown;
  for (int i = 0; i < plan::kMemoryClasses; ++i)
    if (largest[i] > 0) shown.push_back(i);
  std::vector<int> order = shown;
  std::stable_sort(order.begin(), order.end(),
                   [&](int a, int b) { return largest[a] > largest[b]; });
  std::vector<Table::Column> columns{{"batch"}, {"length"}};
  for (int each : shown) {
    const auto rank = std::find(order.begin(), order.end(), each) - order.begin();
    columns.push_back({std::string(name(static_cast<plan::MemoryClass>(each))), Align::kRight,
                       static_cast<int>(rank) + 1});
  }
  columns.push_back({"owned"});
  Table table(std::move(columns));
  for (const record::PhasePlan& each : plan.plans) {
    const record::Setting& setting = each.records.prefill.setting;
    std::vector<std::string> row{std::to_string(setting.batch_size),
                                 std::to_string(setting.sequence)};
    for (int kind : shown) row.push_back(format_bytes(each.class_peaks().bytes[kind]));
    row.push_back(owned_text(plan, each));
    table.add(std::move(row));
  }
  return table.text(terminal) + "\n";
}

std::string heading(const record::InferencePlan& plan, bool verbose) {
  const record::PhasePlan& first = plan.plans.front();
  const record::RunRecord &prefill = first.records.prefill, &decode = first.records.decode;
  std::string text =
      fmt::format("{} at level {}: {} parameters, {} of weights, on {}\nsource: {}\n",
                  terminal_safe(plan.model), plan.level, format_integer(plan.parameters),
                  format_bytes(decode.weight_bytes), terminal_safe(plan.hardware.title),
                  terminal_safe(plan.hardware.source, kLongestMessage));
  if (plan.ranks > 1)
    text += fmt::format(
        "shared by {} such devices (tensor parallel): times are those of all together, bytes those of each\n",
        plan.ranks);
  text += "weights held in " + types_text(first.held_bytes);
  if (!plan.file_bytes.empty()) text += "; in the file " + types_text(plan.file_bytes);
  text += "\n" + assumptions_text(plan.hardware, verbose);
  text += fmt::format(
      "GEMMs in {} (prefill) and {} (decode), KV cache in {}, prefill chunks of {} tokens\n",
      prefill.setting.dtype, decode.setting.dtype, plan.cache_dtype, plan.chunk);
  return text + fit_warning(plan);
}

std::string limits(const record::InferencePlan& plan) {
  std::string text;
  for (const record::LargestBatch& each : plan.largest_batches)
    text += fmt::format(
        "largest batch at length {} in {}: {}{}{}\n", each.length,
        format_bytes(plan.hardware.memory_bytes), each.batch,
        each.batch == plan.most_batch ? " (the most that a session holds)" : "",
        each.batch > 0
            ? fmt::format(", {} per step, {} tokens/s", format_ns(each.decode_ns),
                          format_count(static_cast<double>(each.batch) * 1e9 / each.decode_ns))
            : "");
  for (const record::LongestContext& each : plan.longest_contexts)
    text += fmt::format("longest context for {}: {} (the model's is {})\n",
                        counted(each.batch, "sequence"), each.length, plan.context);
  return text;
}

}  // namespace

std::string inference_plan_text(const record::InferencePlan& plan,
                                bool verbose,
                                const TerminalOptions& terminal) {
  return wrap_lines(heading(plan, verbose), terminal.columns) + "\n" + times_text(plan, terminal) +
         (verbose ? memory_text(plan, terminal) : "") + wrap_lines(limits(plan), terminal.columns);
}

std::string inference_plan_json(const record::InferencePlan& plan) {
  Json json = to_json(plan);
  json.update({{"file_bytes", types_json(plan.file_bytes)},
               {"held_bytes", types_json(plan.plans.front().held_bytes)},
               {"mfu_convention", record::kMfuConvention},
               {"mbu_convention", record::kMbuConvention},
               {"mbu_peak", to_json(plan.hardware.ceilings.mbu_reference())},
               {"plans", Json::array()},
               {"largest_batches", value_json(plan.largest_batches)},
               {"longest_contexts", value_json(plan.longest_contexts)}});
  for (const record::PhasePlan& each : plan.plans) {
    const record::Setting& setting = each.records.prefill.setting;
    json["plans"].push_back({{"batch_size", setting.batch_size},
                             {"sequence", setting.sequence},
                             {"prefill", phase_json(plan, each.records.prefill)},
                             {"decode", phase_json(plan, each.records.decode)},
                             {"owned_bytes", each.owned_bytes},
                             {"class_peak_bytes", value_json(each.class_peaks())}});
  }
  return json_text(json);
}

}  // namespace ridge::report
