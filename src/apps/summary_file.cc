// SPDX-License-Identifier: Apache-2.0
// Field by field, each checked. Not a subcommand.
#include "apps/summary_file.h"

#include <cmath>

#include "base/error.h"
#include "base/printable.h"
#include "files/json.h"
#include "report/performance_summary.h"

namespace ridge::apps {
namespace {

using nlohmann::json;

// A part of the document, and where it stands.
struct Part {
  const json& value;
  std::string where;

  Part at(const char* key) const {
    if (!value.is_object() || !value.contains(key))
      throw file_error("[{}] the field '{}' is missing", where, key);
    return {value[key], where + "." + key};
  }
  bool has(const char* key) const { return value.is_object() && value.contains(key); }
  template <typename Visit>
  void each(const Visit& visit) const {
    if (!value.is_array())
      throw file_error("[{}] expected a list, found {}", where, value.type_name());
    for (size_t i = 0; i < value.size(); ++i)
      visit(Part{value[i], fmt::format("{}[{}]", where, i)});
  }
  std::string text() const {
    if (!value.is_string())
      throw file_error("[{}] expected a text, found {}", where, value.type_name());
    return value.get<std::string>();
  }
  double real() const {
    if (!value.is_number())
      throw file_error("[{}] expected a number, found {}", where, value.type_name());
    return value.get<double>();
  }
  // Counts and sizes: whole, and small enough that sums of them cannot overflow.
  int64_t count() const {
    double number = real();
    if (!(number >= 0) || number > 9e15 || number != std::floor(number))
      throw file_error("[{}] expected a whole number >= 0, found {}", where, number);
    return static_cast<int64_t>(number);
  }
  bool flag() const {
    if (!value.is_boolean())
      throw file_error("[{}] expected true or false, found {}", where, value.type_name());
    return value.get<bool>();
  }
};

perf::Summary read_samples(const Part& part) {
  return {part.at("samples").count(), part.at("median_ns").real(), part.at("low_ns").real(),
          part.at("high_ns").real(), part.at("coverage").real()};
}

SummaryOperation read_operation(const Part& part) {
  SummaryOperation row;
  row.key = part.at("key").text();
  row.calls = part.at("calls").count();
  row.time_ns = part.at("time_ns").real();
  row.samples = read_samples(part.at("samples"));
  row.share = part.at("share").real();
  row.flops_per_s = part.at("flops_per_s").real();
  row.bytes_per_s = part.at("bytes_per_s").real();
  row.bound = part.at("bound").text();
  row.predicted_ns = part.at("predicted_ns").real();
  return row;
}

SummaryRun read_run(const Part& part) {
  SummaryRun run;
  Part setting = part.at("setting"), memory = part.at("memory");
  run.model = setting.at("model").text();
  run.level = setting.at("level").text();
  run.switches = setting.at("pass").text();
  run.dtype = setting.at("dtype").text();
  run.batch_size = setting.at("batch_size").count();
  run.sequence = setting.at("seq_len").count();
  run.micro_batches = setting.at("micro_batches").count();
  run.step = read_samples(part.at("step"));
  run.predicted_ns = part.at("predicted_step_ns").real();
  run.samples_per_s = part.at("samples_per_s").real();
  run.tokens_per_s = part.at("tokens_per_s").real();
  run.speed_up = part.at("speed_up").real();
  run.mfu = part.at("mfu").real();
  run.kernel_calls = part.at("kernel_calls").count();
  run.owned_bytes = memory.at("owned_bytes").count();
  run.measured_peak_bytes = memory.at("measured_peak_bytes").count();
  if (setting.has("task")) run.task = setting.at("task").text();
  if (part.has("loss")) {
    // A loss that was NaN was written as null.
    Part loss = part.at("loss");
    run.mean_loss = loss.at("mean").value.is_null() ? std::nan("") : loss.at("mean").real();
    run.losses_agree = loss.at("agrees").flag();
  }
  if (part.has("operations"))
    part.at("operations").at("by_op").each([&](const Part& row) {
      run.by_op.push_back(read_operation(row));
    });
  return run;
}

}  // namespace

std::string SummaryRun::str() const {
  std::string text = fmt::format("{} {}{}{} {}x{}", model, task == "train" ? "" : task + " ", level,
                                 switches.empty() ? "" : " " + switches, batch_size, sequence);
  if (micro_batches > 1) text += fmt::format(" x{} micro-batches", micro_batches);
  return dtype == "f32" ? text : text + " " + dtype;
}

SummaryFile read_summary(const std::filesystem::path& path) {
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path)) file /= "performance_summary.json";
  json document = files::read_json(file);
  Part root{document, file.string()};
  if (int64_t version = root.at("version").count(); version != report::kSummaryVersion)
    throw file_error("[{}] expected version {}, found {}", file.string(), report::kSummaryVersion,
                     version);
  SummaryFile summary;
  summary.program = root.at("program").text();
  summary.command = root.at("command").text();
  summary.finished_at = root.at("finished_at").text();
  if (root.has("machine")) summary.device = root.at("machine").at("device").text();
  root.at("runs").each([&](const Part& run) { summary.runs.push_back(read_run(run)); });
  root.at("advice").each([&](const Part& part) {
    summary.advice.push_back({part.at("title").text(), part.at("reason").text(),
                              part.at("command").text(), part.at("predicted_gain").real()});
  });
  root.at("warnings").each([&](const Part& part) { summary.warnings.push_back(part.text()); });
  return summary;
}

}  // namespace ridge::apps
