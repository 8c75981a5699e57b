// SPDX-License-Identifier: Apache-2.0
// Reads and checks the summary field by field.
#include "record/summary_file.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "files/json.h"
#include "files/json_field.h"
#include "ops/registry.h"

namespace ridge::record {
namespace {

using files::JsonField;

// Counts and sizes: whole numbers, small enough that their sums cannot overflow.
int64_t count(const JsonField& field) {
  constexpr int64_t kMost = 9'000'000'000'000'000;
  return field.integer(0, kMost);
}

// The elements of a list. Far more than any run has would take long to compare and to print.
std::vector<JsonField> rows(const JsonField& list) {
  constexpr size_t kMost = 4096;
  if (list.list().size() > kMost)
    throw list.fault(fmt::format("at most {} elements", kMost), fmt::to_string(list.list().size()));
  return list.items();
}

Summary read_samples(const JsonField& part) {
  return {count(part.at("samples")), part.at("median_ns").real(), part.at("low_ns").real(),
          part.at("high_ns").real(), part.at("coverage").real()};
}

SummaryOperation read_operation(const JsonField& part) {
  SummaryOperation row;
  row.key = part.at("key").text();
  if (const Op* op = ops::table().find(row.key)) row.key = op->name;
  row.calls = count(part.at("calls"));
  row.time_ns = part.at("time_ns").real();
  row.exclusive_ns = part.at("exclusive_ns").real();
  row.samples = read_samples(part.at("samples"));
  row.share = part.at("share").real();
  row.flops_per_s = part.at("flops_per_s").real();
  row.bytes_per_s = part.at("bytes_per_s").real();
  row.bound = part.at("bound").text();
  row.predicted_ns = part.at("predicted_ns").real();
  return row;
}

Setting read_setting(const JsonField& part) {
  Setting setting;
  setting.model = part.at("model").text();
  setting.level = part.at("level").text();
  setting.switches = part.at("pass").text();
  setting.dtype = part.at("dtype").text();
  setting.batch_size = count(part.at("batch_size"));
  setting.sequence = count(part.at("seq_len"));
  setting.micro_batches = count(part.at("micro_batches"));
  if (part.has("device")) setting.device = part.at("device").text();
  if (part.has("isa")) setting.isa = part.at("isa").text();
  if (part.has("threads"))
    setting.threads = static_cast<int>(part.at("threads").integer(0, 1 << 20));
  if (part.has("task")) setting.task = part.at("task").text();
  if (part.has("cache_dtype")) setting.cache_dtype = part.at("cache_dtype").text();
  return setting;
}

SummaryRun read_run(const JsonField& part) {
  SummaryRun run;
  JsonField memory = part.at("memory");
  run.setting = read_setting(part.at("setting"));
  run.step = read_samples(part.at("step"));
  run.predicted_ns = part.at("predicted_step_ns").real();
  run.samples_per_s = part.at("samples_per_s").real();
  run.tokens_per_s = part.at("tokens_per_s").real();
  run.speed_up = part.at("speed_up").real();
  run.mfu = part.at("mfu").real();
  run.launch_rate = part.at("launch_rate").real();
  run.kernel_calls = count(part.at("kernel_calls"));
  run.owned_bytes = count(memory.at("owned_bytes"));
  run.measured_peak_bytes = count(memory.at("measured_peak_bytes"));
  if (part.has("loss")) {
    // A NaN loss is written as null.
    JsonField loss = part.at("loss");
    run.mean_loss = loss.real_or("mean", std::nan(""));
    run.losses_agree = loss.at("agrees").flag();
  }
  if (!part.has("operations")) return run;
  const JsonField operations = part.at("operations");
  for (const JsonField& row : rows(operations.at("by_op")))
    run.by_op.push_back(read_operation(row));
  if (operations.has("by_kind"))
    for (const JsonField& row : rows(operations.at("by_kind")))
      run.by_kind.push_back(read_operation(row));
  return run;
}

// The names in version 1 and in version 2, at any depth.
constexpr std::pair<const char*, const char*> kRenamed[] = {
    {"busy_ns", "kernel_ns"},
    {"launch_ns", "idle_before_first_ns"},
    {"own_ns", "exclusive_ns"},
    {"machine_pace", "launch_rate"},
    {"largest_difference", "max_abs_difference"}};

nlohmann::json from_version_1(const nlohmann::json& old) {
  if (!old.is_structured()) return old;
  nlohmann::json upgraded = old.is_array() ? nlohmann::json::array() : nlohmann::json::object();
  for (const auto& [key, value] : old.items()) {
    if (old.is_array()) {
      upgraded.push_back(from_version_1(value));
      continue;
    }
    auto renamed = std::find_if(std::begin(kRenamed), std::end(kRenamed),
                                [&key = key](const auto& each) { return each.first == key; });
    upgraded[renamed == std::end(kRenamed) ? key : renamed->second] = from_version_1(value);
  }
  return upgraded;
}

}  // namespace

nlohmann::json current_summary(const nlohmann::json& document, const std::string& source) {
  const JsonField root(document, source);
  const JsonField version = root.at("version");
  if (version.integer() == kSummaryVersion) return document;
  if (version.integer() != 1) throw version.fault(fmt::format("version 1 or {}", kSummaryVersion));
  return from_version_1(document);
}

SummaryFile read_summary(const nlohmann::json& document, const std::string& source) {
  JsonField root(document, source);
  SummaryFile summary;
  summary.program = root.at("program").text();
  summary.command = root.at("command").text();
  summary.finished_at = root.at("finished_at").text();
  if (root.has("machine")) summary.device = root.at("machine").at("device").text();
  for (const JsonField& run : rows(root.at("runs"))) summary.runs.push_back(read_run(run));
  for (const JsonField& part : rows(root.at("advice")))
    summary.advice.push_back({part.at("title").text(), part.at("reason").text(),
                              part.at("command").text(), part.at("predicted_gain").real()});
  for (const JsonField& warning : rows(root.at("warnings")))
    summary.warnings.push_back(warning.text());
  return summary;
}

SummaryFile read_summary(const std::filesystem::path& path) {
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path)) file /= "performance_summary.json";
  constexpr files::JsonLimits kLimits{.max_bytes = int64_t{64} << 20};
  return read_summary(current_summary(files::read_json(file, kLimits), file.string()),
                      file.string());
}

}  // namespace ridge::record
