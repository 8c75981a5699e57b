// SPDX-License-Identifier: Apache-2.0
// Field by field, each checked. Not a subcommand.
#include "apps/summary_file.h"

#include <cmath>

#include "files/json.h"
#include "files/json_field.h"
#include "report/performance_summary.h"

namespace ridge::apps {
namespace {

using files::JsonField;

// Counts and sizes: whole, and small enough that sums of them cannot overflow.
int64_t count(const JsonField& field) {
  constexpr int64_t kMost = 9'000'000'000'000'000;
  return field.integer(0, kMost);
}

Summary read_samples(const JsonField& part) {
  return {count(part.at("samples")), part.at("median_ns").real(), part.at("low_ns").real(),
          part.at("high_ns").real(), part.at("coverage").real()};
}

SummaryOperation read_operation(const JsonField& part) {
  SummaryOperation row;
  row.key = part.at("key").text();
  row.calls = count(part.at("calls"));
  row.time_ns = part.at("time_ns").real();
  row.samples = read_samples(part.at("samples"));
  row.share = part.at("share").real();
  row.flops_per_s = part.at("flops_per_s").real();
  row.bytes_per_s = part.at("bytes_per_s").real();
  row.bound = part.at("bound").text();
  row.predicted_ns = part.at("predicted_ns").real();
  return row;
}

record::Setting read_setting(const JsonField& part) {
  record::Setting setting;
  setting.model = part.at("model").text();
  setting.level = part.at("level").text();
  setting.switches = part.at("pass").text();
  setting.dtype = part.at("dtype").text();
  setting.batch_size = count(part.at("batch_size"));
  setting.sequence = count(part.at("seq_len"));
  setting.micro_batches = count(part.at("micro_batches"));
  if (part.has("task")) setting.task = part.at("task").text();
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
  run.kernel_calls = count(part.at("kernel_calls"));
  run.owned_bytes = count(memory.at("owned_bytes"));
  run.measured_peak_bytes = count(memory.at("measured_peak_bytes"));
  if (part.has("loss")) {
    // A loss that was NaN was written as null.
    JsonField loss = part.at("loss");
    run.mean_loss = loss.real_or("mean", std::nan(""));
    run.losses_agree = loss.at("agrees").flag();
  }
  if (part.has("operations"))
    for (const JsonField& row : part.at("operations").at("by_op").items())
      run.by_op.push_back(read_operation(row));
  return run;
}

}  // namespace

SummaryFile read_summary(const std::filesystem::path& path) {
  std::filesystem::path file = path;
  if (std::filesystem::is_directory(path)) file /= "performance_summary.json";
  const nlohmann::json document = files::read_json(file);
  JsonField root(document, file.string());
  if (root.at("version").integer() != report::kSummaryVersion)
    throw root.at("version").fault(fmt::format("version {}", report::kSummaryVersion));
  SummaryFile summary;
  summary.program = root.at("program").text();
  summary.command = root.at("command").text();
  summary.finished_at = root.at("finished_at").text();
  if (root.has("machine")) summary.device = root.at("machine").at("device").text();
  for (const JsonField& run : root.at("runs").items()) summary.runs.push_back(read_run(run));
  for (const JsonField& part : root.at("advice").items())
    summary.advice.push_back({part.at("title").text(), part.at("reason").text(),
                              part.at("command").text(), part.at("predicted_gain").real()});
  for (const JsonField& warning : root.at("warnings").items())
    summary.warnings.push_back(warning.text());
  return summary;
}

}  // namespace ridge::apps
