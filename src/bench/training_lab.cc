// SPDX-License-Identifier: Apache-2.0
// The levels of a batch size and a length run interleaved.
#include "bench/training_lab.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/printable.h"
#include "base/split.h"
#include "bench/ceiling_check.h"
#include "planning/step_plan.h"
#include "record/inference_record.h"
#include "train/synthetic_data.h"
#include "train/training_schedule.h"

namespace ridge::bench {
namespace {

constexpr size_t kAdvice = 3;
constexpr int64_t kMostTrials = 10;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// On a CPU one thread, half of the cores and all of them.
std::vector<int> other_threads(const record::Setting& present, int all_cores) {
  if (present.device == "cuda") return {};
  std::vector<int> threads{1, all_cores / 2, all_cores};
  std::erase_if(threads, [&](int each) { return each < 1 || each == present.threads; });
  threads.erase(std::unique(threads.begin(), threads.end()), threads.end());
  return threads;
}

// The backend that runs an experiment.
std::unique_ptr<backends::Backend> backend_of(backends::MachineOptions machine,
                                              const measure::TrainingExperiment& e) {
  if (e.setting.device != "cuda") machine.threads = e.setting.threads;
  return backends::make_backend(machine, e.selection);
}

// Those in the cache; else, for other threads, the lab's, scaled.
std::shared_ptr<const cost::Ceilings> other_ceilings(const measure::TrainingExperiment& e,
                                                     const cost::Ceilings& ceilings,
                                                     const measure::CeilingsNote& note) {
  const bool on_gpu = e.setting.device == "cuda";
  const OpenmpThreads threads(on_gpu ? 0 : e.setting.threads);
  if (auto known = measure::known_ceilings(on_gpu, e.selection.has("tf32"), note))
    return std::make_shared<cost::Ceilings>(std::move(*known));
  if (on_gpu) return nullptr;
  return std::make_shared<cost::Ceilings>(cost::at_threads(ceilings, e.setting.threads));
}

}  // namespace

TrainingLab::TrainingLab(const TrainingLabOptions& o)
    : o_(o), model_(models::choose_model(o.model)), switches_(passes::switch_text(o.level)) {
  constexpr int64_t kSteps = 20, kGpuSteps = 48;
  if (o.trials < 0 || o.trials > kMostTrials)
    throw usage_error("[try] expected 0 to {}, got {}", kMostTrials, o.trials);
  steps_ = o.steps.value_or(backends::is_gpu(o.machine) ? kGpuSteps : kSteps);
  train::expect_steps(steps_, 2, o.warmup);
  choose_runs();
  fit_together_ = levels_fit_together();
}

void TrainingLab::choose_runs() {
  if (o_.profile_points != "first" && o_.profile_points != "all")
    throw usage_error("[profile-points] expected first or all, got {}",
                      printable(o_.profile_points));
  levels_ = passes::parse_levels(o_.levels, "level");
  profiled_ = o_.profile_levels.empty() ? std::vector{levels_.back()}
                                        : passes::parse_levels(o_.profile_levels, "profile-level");
  for (const std::string& level : profiled_)
    if (!contains(levels_, level))
      throw usage_error("[profile-level] expected one of the levels that run ({1}), got {0}", level,
                        o_.levels);
  batches_ = o_.batch_sizes.empty() ? std::vector{model_.batch_size}
                                    : parse_sizes(o_.batch_sizes, "batch-size");
  lengths_ = o_.lengths.empty() ? std::vector{model_.sequence} : parse_sizes(o_.lengths, "seq-len");
  for (int64_t length : lengths_) models::expect_context(o_.model, model_, "seq-len", length);
}

measure::TrainingExperiment TrainingLab::experiment(const std::string& level,
                                                    int64_t batch,
                                                    int64_t length) const {
  measure::TrainingExperiment e;
  e.selection = passes::Selection(level, switches_);
  e.setting = backends::make_setting(model_.name, o_.machine, e.selection, switches_);
  e.config = model_.config;
  e.step.batch_size = batch;
  e.step.sequence = length;
  e.warmup_steps = o_.warmup;
  e.steps = steps_;
  return e;
}

bool TrainingLab::levels_fit_together() const {
  int64_t together = 0, available = 0;  // bytes; `together` is for all levels at their largest
  for (const std::string& level : levels_) {
    const auto backend = backends::make_backend(o_.machine, passes::Selection(level, switches_));
    passes::expect_effect(switches_, passes::Serves::kTraining, *backend);
    int64_t most = 0;
    for (int64_t length : lengths_)
      for (int64_t batch : batches_)
        most = std::max(most, expect_fits(experiment(level, batch, length), *backend));
    together += most;
    available = backend->available_bytes();
  }
  return together <= available / 2;  // leaves the rest to other programs
}

measure::InterleavedSetting TrainingLab::setting(const record::LabRecord& lab,
                                                 const LabWork& work) const {
  return {.fit = fit_together_,
          .ceilings = lab.limits(),
          .make_backend = [this](const auto& e) { return backend_of(o_.machine, e); },
          .is_stopped = listener_.is_stopped,
          .listener =
              [this, work](const auto& e, const train::StepEvent& event) {
                listener_.tick(work,
                               fmt::format("{}, loss {:.4f}", e.setting.level, event.result.loss));
              }};
}

void TrainingLab::run(const TrainingLabListener& listener, record::LabRecord& lab) {
  listener_ = listener;
  measure_levels(lab);
  if (lab.runs.empty()) return;
  const bool is_stopped = listener_.is_stopped();
  const auto experiment_of = [this](const record::RunRecord& run) {
    return experiment(run.setting.level, run.setting.batch_size, run.setting.sequence);
  };
  // Nobody who pressed Ctrl-C waits for another measurement.
  if (is_stopped
          ? raise_ceilings(lab)
          : correct_ceilings(
                {.measure = listener_.remeasure,
                 .experiment = experiment_of,
                 .make_backend = [this](const auto& e) { return backend_of(o_.machine, e); }},
                lab))
    measure::keep_ceilings(*lab.ceilings, listener_.note);
  choose_detailed(lab);
  if (is_stopped) warn_of_interruption(lab);
  for (const record::RunRecord& each : lab.runs) record::check_consistency(each, lab);
  listener_.measured();
  if (!o_.no_advice && !is_stopped) advise(lab);
}

// Trains at each level, batch size and length.
void TrainingLab::measure_levels(record::LabRecord& lab) const {
  const LabWork work{"lab", static_cast<int64_t>(runs()) * (o_.warmup + steps_), "steps"};
  for (int64_t length : lengths_)
    for (int64_t batch : batches_) {
      if (listener_.is_stopped()) return;
      std::vector<measure::TrainingExperiment> experiments;
      for (const std::string& level : levels_)
        experiments.push_back(experiment(level, batch, length));
      for (record::RunRecord& run :
           measure::run_interleaved(std::move(experiments), setting(lab, work)))
        lab.runs.push_back(std::move(run));
    }
}

// The profiled levels of the first batch size and length, which run first, or of all; if a Ctrl-C
// has left none of them, the last of those that ran.
void TrainingLab::choose_detailed(record::LabRecord& lab) const {
  const size_t first_runs = std::min(levels_.size(), lab.runs.size());
  const size_t considered = o_.profile_points == "all" ? lab.runs.size() : first_runs;
  for (size_t i = 0; i < considered; ++i)
    if (contains(profiled_, lab.runs[i].setting.level)) lab.detailed.push_back(i);
  if (lab.detailed.empty()) lab.detailed.push_back(first_runs - 1);
}

void TrainingLab::warn_of_interruption(record::LabRecord& lab) const {
  int64_t least = steps_;
  for (const record::RunRecord& run : lab.runs) least = std::min(least, std::ssize(run.losses));
  lab.warnings.push_back(fmt::format(
      "Ctrl-C ended this lab early: {} of {} runs were measured, each of at least {} of {} steps",
      lab.runs.size(), runs(), least, steps_));
}

// On the last level that is reported in detail at the first point.
void TrainingLab::advise(record::LabRecord& lab) const {
  const measure::TrainingExperiment present = experiment(
      record::detailed_at_first_point(lab).back()->setting.level, batches_[0], lengths_[0]);
  const auto backend = backends::make_backend(o_.machine, present.selection);
  const AdviceSearch search{
      .most = std::max(kAdvice, static_cast<size_t>(o_.trials)),
      .gain_error = record::gain_error(lab.runs),
      .threads = other_threads(present.setting, lab.ceilings->machine.cores),
      .ceilings_of =
          [&](const auto& e) { return other_ceilings(e, *lab.ceilings, listener_.note); },
      .listener =
          [&](size_t, size_t of) {
            listener_.tick({"advice", static_cast<int64_t>(of), "changes"}, "");
          }};
  std::vector<Advice> advice = bench::advise(present, *backend, *lab.ceilings, search);
  lab.seeks_advice = true;
  for (const Advice& each : advice) lab.advice.push_back(each.record());
  listener_.advised();
  if (advice.size() > static_cast<size_t>(o_.trials)) advice.resize(static_cast<size_t>(o_.trials));
  if (!advice.empty()) try_out(present, advice, *backend, lab);
  listener_.tried();
}

void TrainingLab::try_out(const measure::TrainingExperiment& present,
                          std::span<const Advice> advice,
                          const backends::Backend& backend,
                          record::LabRecord& lab) const {
  const AdviceTrials trials =
      plan_trials(present, advice, expect_fits(present, backend), backend.available_bytes());
  lab.trials =
      run_trials(trials, advice, setting(lab, {"trial of advice", trials.steps(), "steps"}));
  if (listener_.is_stopped())
    lab.warnings.push_back("Ctrl-C ended this lab before the trial of its advice");
  record::check_trial_consistency(lab);
}

int64_t expect_fits(const measure::TrainingExperiment& e, const backends::Backend& backend) {
  const int64_t bytes = planning::expect_step_fits(e, backend);
  if (e.data == nullptr)
    train::SyntheticData(e.config.vocabulary, e.step.sequence, train::kSyntheticSeed)
        .next(e.step.batch_size);
  return bytes;
}

}  // namespace ridge::bench
