// SPDX-License-Identifier: Apache-2.0
// Names the scalars, and cuts a log that goes on.
#include "report/training_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/host_name.h"
#include "files/atomic_file.h"
#include "files/mapped_file.h"
#include "files/tensorboard_events.h"
#include "report/training_text.h"

namespace ridge::report {
namespace {

constexpr const char* kLines = "metrics.jsonl";
constexpr const char* kNumerics = "numerics.jsonl";
constexpr const char* kSamples = "samples.jsonl";

double unix_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path made(const std::filesystem::path& folder, bool may_have_log) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw runtime_error("[{}] cannot make the folder: {}", folder.string(), error.message());
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (may_have_log) break;
    if (name == kLines || name == kSamples || name == kNumerics ||
        name.find("tfevents") != std::string::npos)
      throw usage_error("[log-dir] expected a folder without a log, found {}",
                        entry.path().string());
  }
  if (error)
    throw runtime_error("[{}] cannot read the folder: {}", folder.string(), error.message());
  return folder;
}

// As other writers name their files; the number keeps two that begin in one second apart.
std::string events_name() {
  std::string name = host_name();
  for (char& c : name)
    if (c == '/') c = '_';
  return fmt::format("events.out.tfevents.{:010.0f}.{}.{}.0", unix_time_s(), name, ::getpid());
}

// The log of lines. If it goes on, lines of steps that run again are dropped, and so is a line that
// was not finished.
files::LogFile begun_lines(const std::filesystem::path& path, std::optional<int64_t> resumed) {
  std::error_code error;
  if (!resumed || !std::filesystem::exists(path, error)) return files::LogFile(path);
  std::string kept;
  if (std::filesystem::file_size(path, error) > 0) {
    const files::MappedFile file(path);
    std::string_view text = file.text();
    for (size_t end = text.find('\n'); end != std::string_view::npos; end = text.find('\n')) {
      const nlohmann::json line = nlohmann::json::parse(text.substr(0, end), nullptr, false);
      const bool is_line = line.is_object() && line.contains("step") && line["step"].is_number();
      // A validation or a sample after n steps belongs to the steps before.
      const bool is_after =
          is_line && (line.contains("validation_loss") || line.contains("finish_reason"));
      const int64_t least = is_after ? *resumed + 1 : *resumed;
      if (is_line && line["step"] < least) kept += text.substr(0, end + 1);
      text.remove_prefix(end + 1);
    }
  }
  files::write_file(path, kept, files::Links::kReplace);
  return files::LogFile(path, files::LogFile::Start::kGoOn);
}

// The figures of a record, with the time after its step.
template <class Record>
Json stamped(const Record& record) {
  Json line = {{"step", record.step}, {"finished_at", utc_now()}};
  line.update(to_json(record));
  return line;
}

}  // namespace

TrainingLog::TrainingLog(const std::filesystem::path& folder, std::optional<int64_t> resumed)
    : folder_(folder),
      resumed_(resumed),
      lines_(begun_lines(made(folder, resumed.has_value()) / kLines, resumed)),
      events_(folder / events_name()) {
  events_.append(files::version_event(unix_time_s()));
}

void TrainingLog::append(Json line, std::string_view scalars) {
  const std::vector<Choice> chosen = choices(scalars);
  std::vector<files::EventScalar> shown;
  for (const Choice& each : chosen)
    if (const Json value = line.value(each.key, Json()); !value.is_null())
      shown.push_back({each.name, static_cast<float>(value.get<double>())});
  events_.append(files::scalars_event(unix_time_s(), line["step"].get<int64_t>(), shown));
  line.erase("step_ms");
  lines_.append(line.dump() + "\n");
}

void TrainingLog::add(const record::StepMetrics& s) {
  Json line = stamped(s);
  line["step_ms"] = s.step_ns / 1e6;
  append(std::move(line),
         "train/loss=loss train/learning_rate=learning_rate speed/step_ms=step_ms "
         "speed/samples_per_s=samples_per_s speed/tokens_per_s=tokens_per_s "
         "speed/model_flops_per_s=model_flops_per_s memory/resident_bytes=resident_bytes "
         "train/gradient_norm=gradient_norm train/loss_scale=loss_scale train/overflows=overflows "
         "speed/mfu=mfu");
}

void TrainingLog::add(const record::ValidationMetrics& validation) {
  append(stamped(validation), "validation/loss=validation_loss");
}

void TrainingLog::add(const record::NumericsRecord& numerics) {
  if (!numerics_) numerics_.emplace(begun_lines(folder_ / kNumerics, resumed_));
  numerics_->append(to_json(numerics).dump() + "\n");
}

void TrainingLog::add(const record::TrainingSample& sample) {
  if (!samples_) samples_.emplace(begun_lines(folder_ / kSamples, resumed_));
  samples_->append(json_line(stamped(sample)) + "\n");
}

}  // namespace ridge::report
