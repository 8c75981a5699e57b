// SPDX-License-Identifier: Apache-2.0
// Builds the candidates, costs them and ranks them.
#include "bench/advice.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/units.h"
#include "ops/registry.h"

namespace ridge::bench {
namespace {

// A smaller predicted gain is within the error of the predictions.
constexpr double kLeastTimeGain = 0.01;
constexpr double kLeastMemoryGain = 0.05;

struct Candidate {
  std::string title;
  std::string why;  // the motivation, without numbers
  std::string command;
  measure::TrainingExperiment experiment;
  bool is_same_training = true;
};

std::string joined(const std::string& switches, const std::string& item) {
  return switches.empty() ? item : switches + "," + item;
}

// The same experiment at another level or with other switches. Throws usage Errors for impossible
// selections.
measure::TrainingExperiment with_selection(const measure::TrainingExperiment& present,
                                           const std::string& level,
                                           const std::string& switches) {
  measure::TrainingExperiment changed = present;
  changed.setting.level = level;
  changed.setting.switches = switches;
  changed.selection = passes::Selection(level, switches);
  if (changed.selection.has("autocast_bf16")) changed.setting.dtype = "bf16";
  return changed;
}

class Candidates {
 public:
  Candidates(const measure::TrainingExperiment& present, const passes::PassTarget& target)
      : present_(present), target_(target) {}

  std::vector<Candidate> all() {
    add_levels();
    add_passes();
    add_batches();
    return std::move(candidates_);
  }

 private:
  void add_selection(std::string title,
                     std::string_view why,
                     std::string command,
                     const std::string& level,
                     const std::string& switches,
                     bool is_same_training = true) {
    try {
      candidates_.push_back({std::move(title), std::string(why), std::move(command),
                             with_selection(present_, level, switches), is_same_training});
    } catch (const Error&) {
      // Required passes cannot be turned off, so there is no candidate.
    }
  }

  void add_levels() {
    for (const passes::Level& level : passes::levels()) {
      if (level.name == present_.setting.level) continue;
      std::string name(level.name);
      add_selection(fmt::format("train at level {}", name), level.summary,
                    fmt::format("--level {}", name), name, present_.setting.switches);
    }
  }

  void add_passes() {
    const std::string& switches = present_.setting.switches;
    for (const passes::Pass* pass : passes::pipeline(target_.passes())) {
      std::string name(pass->name);
      bool is_on = present_.selection.has(name), is_cast = name == "autocast_bf16";
      std::string item = (is_on ? "-" : "+") + name;
      std::string command =
          is_cast ? fmt::format("--dtype {}", is_on ? "fp32" : "bf16") : "--pass=" + item;
      add_selection(fmt::format("turn {} {}", is_on ? "off" : "on", name),
                    is_on ? "" : pass->summary, command, present_.setting.level,
                    joined(switches, item), !is_cast);
    }
  }

  void add_batches() {
    for (bool doubled : {true, false}) {
      int64_t batch = doubled ? present_.step.batch_size * 2 : present_.step.batch_size / 2;
      if (batch < 1) continue;
      measure::TrainingExperiment changed = present_;
      changed.step.batch_size = changed.setting.batch_size = batch;
      candidates_.push_back({fmt::format("train with batches of {}", batch),
                             doubled ? "weights and optimizer state are read once for more tokens"
                                     : "fewer activations, so more of them stay in the caches",
                             fmt::format("--batch-size {}", batch), changed, false});
    }
  }

  const measure::TrainingExperiment& present_;
  const passes::PassTarget& target_;
  std::vector<Candidate> candidates_;
};

record::RunRecord cost(const measure::TrainingExperiment& e,
                       const passes::PassTarget& target,
                       const cost::Ceilings& ceilings) {
  train::TrainingStep step = train::build_step(e.config, e.step, e.selection, ops::table(), target);
  return measure::planned_training(e, step, target, &ceilings);
}

std::string reason(const Candidate& candidate, const Advice& a) {
  std::string text = candidate.why;
  auto change = [&](std::string_view what, const std::string& before, const std::string& after) {
    if (before == after) return;
    text += fmt::format("{}{} {} to {}", text.empty() ? "" : "; ", what, before, after);
  };
  change("kernel calls", format_integer(a.before_launches), format_integer(a.after_launches));
  change("bytes moved", format_bytes(a.before_bytes), format_bytes(a.after_bytes));
  change("owned memory", format_bytes(a.before_peak_bytes), format_bytes(a.after_peak_bytes));
  return text;
}

Advice weigh(const Candidate& candidate,
             const record::RunRecord& before,
             const record::RunRecord& after) {
  Advice a;
  a.title = candidate.title;
  a.command = candidate.command;
  a.changed = candidate.experiment;
  a.is_same_training = candidate.is_same_training;
  a.before_ns = before.predicted_ns;
  a.after_ns = after.predicted_ns;
  a.before_samples = before.setting.samples();
  a.after_samples = after.setting.samples();
  a.before_peak_bytes = before.memory.owned_bytes;
  a.after_peak_bytes = after.memory.owned_bytes;
  a.before_bytes = before.planned_bytes;
  a.after_bytes = after.planned_bytes;
  a.before_launches = before.launches;
  a.after_launches = after.launches;
  a.reason = reason(candidate, a);
  return a;
}

bool is_worth_saying(const Advice& a,
                     const measure::TrainingExperiment& present,
                     const cost::Ceilings& ceilings) {
  int64_t memory_bytes = ceilings.machine.memory_bytes;
  if (memory_bytes > 0 && a.after_peak_bytes > memory_bytes) return false;
  if (a.time_gain() >= kLeastTimeGain) return true;
  // A smaller batch always takes less memory, which alone is no advice.
  return a.changed.step.batch_size == present.step.batch_size &&
         a.memory_gain() >= kLeastMemoryGain;
}

bool is_better(const Advice& a, const Advice& b) {
  bool a_fast = a.time_gain() >= kLeastTimeGain, b_fast = b.time_gain() >= kLeastTimeGain;
  if (a_fast != b_fast) return a_fast;
  if (a_fast) return a.time_gain() > b.time_gain();
  return a.memory_gain() > b.memory_gain();
}

}  // namespace

double Advice::time_gain() const {
  if (!(before_ns > 0) || !(after_ns > 0) || before_samples < 1) return 0;
  double before = static_cast<double>(before_samples) / before_ns;
  return static_cast<double>(after_samples) / after_ns / before - 1;
}

double Advice::memory_gain() const {
  return before_peak_bytes > 0
             ? 1 - static_cast<double>(after_peak_bytes) / static_cast<double>(before_peak_bytes)
             : 0;
}

record::AdviceRecord Advice::record() const {
  return {title,     reason,   command,           time_gain(),      memory_gain(),
          before_ns, after_ns, before_peak_bytes, after_peak_bytes, is_same_training};
}

std::vector<Advice> advise(const measure::TrainingExperiment& present,
                           const passes::PassTarget& target,
                           const cost::Ceilings& ceilings,
                           size_t most,
                           const std::function<void(size_t done, size_t of)>& listener) {
  record::RunRecord before = cost(present, target, ceilings);
  std::vector<Candidate> candidates = Candidates(present, target).all();
  std::vector<Advice> advice;
  for (size_t i = 0; i < candidates.size(); ++i) {
    try {
      record::RunRecord after = cost(candidates[i].experiment, target, ceilings);
      Advice each = weigh(candidates[i], before, after);
      if (is_worth_saying(each, present, ceilings)) advice.push_back(each);
    } catch (const Error&) {
      // The change does not fit the model or the target (for example, a head size without a
      // kernel), so there is no advice.
    }
    if (listener) listener(i + 1, candidates.size());
  }
  std::stable_sort(advice.begin(), advice.end(), is_better);
  if (advice.size() > most) advice.resize(most);
  return advice;
}

}  // namespace ridge::bench
