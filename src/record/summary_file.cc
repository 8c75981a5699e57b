// SPDX-License-Identifier: Apache-2.0
// Reads and checks the summary field by field.
#include "record/summary_file.h"

#include <algorithm>
#include <cmath>
#include <type_traits>
#include <utility>

#include "files/json.h"
#include "files/json_field.h"
#include "ops/registry.h"
#include "record/run_figures.h"

namespace ridge::record {
namespace {

using files::JsonField;

// The elements of a list. Far more than any run has would take long to compare and to print.
std::vector<JsonField> elements(const JsonField& list) {
  constexpr size_t kMost = 4096;
  if (list.list().size() > kMost)
    throw list.fault(fmt::format("at most {} elements", kMost), fmt::to_string(list.list().size()));
  return list.items();
}

// Counts and sizes: whole numbers, small enough that their sums cannot overflow.
void take(const JsonField& field, int64_t& value) {
  value = field.integer(0, 9'000'000'000'000'000);
}
void take(const JsonField& field, int& value) {
  value = static_cast<int>(field.integer(0, 1 << 20));
}
void take(const JsonField& field, double& value) { value = field.real(); }
void take(const JsonField& field, std::string& value) { value = field.text(); }

// Reads the members among the figures of a record.
template <HasFigures R>
void take(const JsonField& part, R& record) {
  const auto see = [&](const Figure& figure, auto&& value, Unknown = Unknown::kWritten) {
    const std::string key(figure.key);
    if constexpr (std::is_lvalue_reference_v<decltype(value)>)
      if (figure.since == 1 || part.has(key)) take(part.at(key), value);
  };
  figures(see, record);
}

std::vector<SummaryOperation> read_operations(const JsonField& list) {
  std::vector<SummaryOperation> all;
  for (const JsonField& each : elements(list)) {
    take(each, all.emplace_back());
    if (const Op* op = ops::table().find(all.back().key)) all.back().key = op->name;
  }
  return all;
}

SummaryRun read_run(const JsonField& part) {
  SummaryRun run;
  take(part, run);
  const JsonField memory = part.at("memory");
  take(memory.at("owned_bytes"), run.owned_bytes);
  take(memory.at("measured_peak_bytes"), run.measured_peak_bytes);
  if (part.has("attribution")) {
    const JsonField times = part.at("attribution");
    if (times.has("idle_ns") && times.has("host_ns"))
      run.without_kernel_ns = times.at("idle_ns").real() + times.at("host_ns").real();
  }
  if (part.has("loss")) {
    // A NaN loss is written as null.
    JsonField loss = part.at("loss");
    run.mean_loss = loss.real_or("mean", std::nan(""));
    run.losses_agree = loss.at("agrees").flag();
  }
  if (!part.has("operations")) return run;
  const JsonField operations = part.at("operations");
  run.by_op = read_operations(operations.at("by_op"));
  if (operations.has("by_kind")) run.by_kind = read_operations(operations.at("by_kind"));
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
  for (const JsonField& run : elements(root.at("runs"))) summary.runs.push_back(read_run(run));
  for (const JsonField& part : elements(root.at("advice")))
    take(part, summary.advice.emplace_back());
  for (const JsonField& warning : elements(root.at("warnings")))
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
