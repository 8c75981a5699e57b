// SPDX-License-Identifier: Apache-2.0
// Names the scalars and writes them after each step. Not a subcommand.
#include "apps/training_log.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <system_error>
#include <vector>

#include "base/clock.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "files/tensorboard_events.h"

namespace ridge::apps {
namespace {

double unix_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::filesystem::path made(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw runtime_error("[{}] cannot make the folder: {}", folder.string(), error.message());
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name == "metrics.jsonl" || name.find("tfevents") != std::string::npos)
      throw usage_error("[log-dir] expected a folder without a log, found {}",
                        entry.path().string());
  }
  if (error)
    throw runtime_error("[{}] cannot read the folder: {}", folder.string(), error.message());
  return folder;
}

// As other writers name their files; the number keeps two that begin in one second apart.
std::string events_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  std::string name(host.data());
  for (char& c : name)
    if (c == '/') c = '_';
  return fmt::format("events.out.tfevents.{:010.0f}.{}.{}.0", unix_time_s(), name, ::getpid());
}

}  // namespace

TrainingLog::TrainingLog(const std::filesystem::path& folder)
    : lines_(made(folder) / "metrics.jsonl"), events_(folder / events_name()) {
  events_.append(files::version_event(unix_time_s()));
}

void TrainingLog::begin(const record::LabRecord& lab,
                        const record::RunRecord& plan,
                        const train::OptimizerOptions& optimizer,
                        int64_t first_step) {
  plan_ = plan;
  peak_ = record::mfu_reference(lab, plan.setting);
  optimizer_ = optimizer;
  first_step_ = first_step;
}

void TrainingLog::add(const measure::StepEvent& event) {
  plan_.plain_wall_ns = {event.result.elapsed_ns};
  const double rate = train::learning_rate(optimizer_, first_step_ + event.index);
  const int64_t resident = read_process_memory().resident_bytes;
  const double mfu = plan_.mfu(peak_);
  nlohmann::ordered_json line = {{"step", event.index},
                                 {"finished_at", utc_now()},
                                 {"loss", event.result.loss},
                                 {"learning_rate", rate},
                                 {"step_ns", event.result.elapsed_ns},
                                 {"samples_per_s", plan_.samples_per_s()},
                                 {"tokens_per_s", plan_.tokens_per_s()},
                                 {"model_flops_per_s", plan_.palm_flops_per_s()},
                                 {"mfu", nullptr},
                                 {"resident_bytes", resident},
                                 {"instrumented", event.instrumented}};
  std::vector<files::EventScalar> scalars = {
      {"train/loss", static_cast<float>(event.result.loss)},
      {"train/learning_rate", static_cast<float>(rate)},
      {"speed/step_ms", static_cast<float>(event.result.elapsed_ns / 1e6)},
      {"speed/samples_per_s", static_cast<float>(plan_.samples_per_s())},
      {"speed/tokens_per_s", static_cast<float>(plan_.tokens_per_s())},
      {"speed/model_flops_per_s", static_cast<float>(plan_.palm_flops_per_s())},
      {"memory/resident_bytes", static_cast<float>(resident)}};
  if (mfu > 0) {
    line["mfu"] = mfu;
    scalars.push_back({"speed/mfu", static_cast<float>(mfu)});
  }
  lines_.append(line.dump() + "\n");
  events_.append(files::scalars_event(unix_time_s(), event.index, scalars));
}

}  // namespace ridge::apps
