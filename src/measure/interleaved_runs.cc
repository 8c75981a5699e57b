// SPDX-License-Identifier: Apache-2.0
// Gives each experiment its threads during its rounds.
#include "measure/interleaved_runs.h"

#include <utility>

#include "base/openmp_threads.h"

namespace ridge::measure {
namespace {

constexpr int64_t kRoundSteps = 4;  // two plain and two instrumented steps

// An experiment that has started.
struct Running {
  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<train::StepListener> listener;
  std::unique_ptr<TrainingRun> run;
  int threads = 0;  // 0: not the CPU's

  void run_round(int64_t steps, const train::StopCheck& is_stopped) {
    const OpenmpThreads turn(threads);
    run->run_round(steps, is_stopped);
  }
};

Running start(const TrainingExperiment& e, const InterleavedSetting& setting) {
  Running running;
  running.threads = e.setting.device == "cuda" ? 0 : e.setting.threads;
  const OpenmpThreads threads(running.threads);
  running.backend = setting.make_backend(e);
  running.listener = std::make_unique<train::StepListener>(
      [&setting, &e](const train::StepEvent& event) { setting.listener(e, event); });
  running.run = std::make_unique<TrainingRun>(e, *running.backend, setting.ceilings);
  running.run->observe(*running.listener);
  return running;
}

}  // namespace

std::vector<record::RunRecord> run_interleaved(std::vector<TrainingExperiment> experiments,
                                               const InterleavedSetting& setting) {
  std::vector<record::RunRecord> records;
  std::vector<Running> all;
  const auto finish = [&] {
    for (const Running& each : all)
      if (record::RunRecord made = each.run->record(); is_reportable(experiments[0], made))
        records.push_back(std::move(made));
    all.clear();
  };
  for (TrainingExperiment& e : experiments) {
    if (setting.is_stopped()) break;
    if (!all.empty()) e.foreign_bytes = all.front().run->record().memory.foreign_bytes;
    all.push_back(start(e, setting));
    const bool interleaves =
        setting.fit && !(e.instrument && all.back().backend->instrument() != nullptr);
    all.back().run_round(interleaves ? kRoundSteps : e.steps, setting.is_stopped);
    if (!interleaves) finish();
  }
  while (!setting.is_stopped() && !all.empty() && !all.back().run->is_done())
    for (Running& each : all) each.run_round(kRoundSteps, setting.is_stopped);
  finish();
  return records;
}

}  // namespace ridge::measure
