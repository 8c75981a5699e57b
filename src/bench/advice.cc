// SPDX-License-Identifier: Apache-2.0
// Costs the changes, then pairs of the best, and ranks them.
#include "bench/advice.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "base/units.h"
#include "bench/changes.h"
#include "planning/step_plan.h"
#include "record/lab_record.h"

namespace ridge::bench {
namespace {

// A smaller predicted gain is within the error of the predictions.
constexpr double kLeastTimeGain = 0.01;
constexpr double kLeastMemoryGain = 0.05;
constexpr size_t kPaired = 10;  // the best changes, of which all pairs are tried

using Changes = std::vector<const Change*>;

// A change or two, and their effect.
struct Weighed {
  Changes changes;
  Advice advice;
};

std::string reason(const Changes& changes, const Advice& a) {
  std::string text;
  auto add = [&](const std::string& part) {
    if (!part.empty()) text += (text.empty() ? "" : "; ") + part;
  };
  auto change = [&](std::string_view what, const std::string& before, const std::string& after) {
    if (before != after) add(fmt::format("{} {} to {}", what, before, after));
  };
  for (const Change* each : changes) add(each->why);
  change("kernel calls", format_integer(a.before_launches), format_integer(a.after_launches));
  change("bytes moved", format_bytes(a.before_bytes), format_bytes(a.after_bytes));
  change("owned memory", format_bytes(a.before_peak_bytes), format_bytes(a.after_peak_bytes));
  return text;
}

bool is_fast(const Advice& a) { return a.time_gain() >= kLeastTimeGain; }

bool is_better(const Weighed& a, const Weighed& b) {
  const bool a_fast = is_fast(a.advice), b_fast = is_fast(b.advice);
  if (a_fast != b_fast) return a_fast;
  if (a_fast) return a.advice.time_gain() > b.advice.time_gain();
  return a.advice.memory_gain() > b.advice.memory_gain();
}

class Search {
 public:
  Search(const measure::TrainingExperiment& present,
         const passes::PassTarget& target,
         const cost::Ceilings& ceilings,
         const AdviceSearch& options)
      : present_(present),
        target_(target),
        o_(options),
        ceilings_(std::make_shared<const cost::Ceilings>(ceilings)),
        begin_ns_(now_ns()),
        all_(possible_changes(present, target, options.threads)),
        before_(cost(present, *ceilings_)) {}

  std::vector<Advice> run() {
    total_ = all_.size();
    std::vector<Weighed> found;
    for (const Change& each : all_) weigh({&each}, found);
    std::ranges::stable_sort(found, is_better);
    weigh_pairs(found);
    std::ranges::stable_sort(found, is_better);
    return best(found);
  }

 private:
  bool is_over() const { return now_ns() - begin_ns_ > o_.seconds * 1e9; }

  record::RunRecord cost(const measure::TrainingExperiment& e,
                         const cost::Ceilings& ceilings) const {
    // Workspace is planned for the threads of OpenMP.
    const OpenmpThreads threads(e.setting.threads == present_.setting.threads ? 0
                                                                              : e.setting.threads);
    return planning::plan_step(e, target_, &ceilings);
  }

  // Null if they are unknown.
  std::shared_ptr<const cost::Ceilings> ceilings(const measure::TrainingExperiment& e) const {
    const bool is_other = e.setting.threads != present_.setting.threads ||
                          (e.setting.dtype == "tf32") != (present_.setting.dtype == "tf32");
    if (!is_other) return ceilings_;
    return o_.ceilings_of ? o_.ceilings_of(e) : nullptr;
  }

  // Adds the advice to make these changes, if they can be made and gain something.
  void weigh(const Changes& changes, std::vector<Weighed>& found) {
    if (is_over()) return;
    try {
      Advice a;
      a.changed = present_;
      for (const Change* each : changes) each->make(a.changed);
      a.ceilings = ceilings(a.changed);
      if (a.ceilings != nullptr) {
        describe(changes, cost(a.changed, *a.ceilings), a);
        if (is_worth_saying(a)) found.push_back({changes, std::move(a)});
      }
    } catch (const Error&) {
      // The change does not fit the model or the target (for example, a head size without a
      // kernel), so there is no advice.
    }
    if (o_.listener) o_.listener(++done_, total_);
  }

  void describe(const Changes& changes, const record::RunRecord& after, Advice& a) const {
    double error = o_.gain_error;
    for (const Change* each : changes) {
      a.title += (a.title.empty() ? "" : " and ") + each->title;
      a.is_same_training &= each->is_same_training;
      if (each->is_untested_rate) error = 2 * o_.gain_error;
    }
    a.command = options_text(changes);
    a.before_ns = before_.predicted_ns;
    a.after_ns = after.predicted_ns;
    a.before_tokens = before_.setting.tokens();
    a.after_tokens = after.setting.tokens();
    a.before_peak_bytes = before_.memory.owned_bytes;
    a.after_peak_bytes = after.memory.owned_bytes;
    a.before_bytes = before_.planned_bytes;
    a.after_bytes = after.planned_bytes;
    a.before_launches = before_.launches;
    a.after_launches = after.launches;
    a.reason = reason(changes, a);
    a.confidence = is_fast(a) ? record::gain_confidence(a.time_gain(), error) : 1;
  }

  bool is_worth_saying(const Advice& a) const {
    const int64_t memory_bytes = ceilings_->machine.memory_bytes;
    if (memory_bytes > 0 && a.after_peak_bytes > memory_bytes) return false;
    if (is_fast(a)) return a.confidence >= kLeastConfidence;
    // Smaller batches and shorter sequences always take less memory, which alone is no advice.
    return a.after_tokens == a.before_tokens && a.memory_gain() >= kLeastMemoryGain;
  }

  // Whether two changes together gain more than each alone.
  static bool is_gain(const Weighed& pair, const Advice& a, const Advice& b) {
    if (is_fast(pair.advice))
      return pair.advice.time_gain() >= std::max(a.time_gain(), b.time_gain()) + kLeastTimeGain;
    return pair.advice.memory_gain() >=
           std::max(a.memory_gain(), b.memory_gain()) + kLeastMemoryGain;
  }

  // The best first, as the time may not suffice for all.
  void weigh_pairs(std::vector<Weighed>& found) {
    const size_t few = std::min(found.size(), kPaired);
    std::vector<std::pair<size_t, size_t>> pairs;
    for (size_t sum = 1; sum < 2 * few; ++sum)
      for (size_t i = 0; 2 * i < sum && i < few; ++i)
        if (const size_t j = sum - i;
            j < few && found[i].changes[0]->setting != found[j].changes[0]->setting)
          pairs.emplace_back(i, j);
    total_ += pairs.size();
    std::vector<Weighed> better;
    for (const auto& [i, j] : pairs) {
      std::vector<Weighed> pair;
      weigh({found[i].changes[0], found[j].changes[0]}, pair);
      if (!pair.empty() && is_gain(pair[0], found[i].advice, found[j].advice))
        better.push_back(std::move(pair[0]));
    }
    std::ranges::move(better, std::back_inserter(found));
  }

  // Keeps the first of changes to the same settings.
  std::vector<Advice> best(std::vector<Weighed>& sorted) const {
    std::vector<Advice> advice;
    std::set<std::set<std::string>> seen;
    for (Weighed& each : sorted) {
      std::set<std::string> settings;
      for (const Change* change : each.changes) settings.insert(change->setting);
      if (advice.size() < o_.most && seen.insert(settings).second)
        advice.push_back(std::move(each.advice));
    }
    return advice;
  }

  const measure::TrainingExperiment& present_;
  const passes::PassTarget& target_;
  const AdviceSearch& o_;
  std::shared_ptr<const cost::Ceilings> ceilings_;
  double begin_ns_;
  std::vector<Change> all_;
  record::RunRecord before_;
  size_t done_ = 0, total_ = 0;
};

}  // namespace

double Advice::time_gain() const {
  if (!(before_ns > 0) || !(after_ns > 0) || before_tokens < 1) return 0;
  const double before = static_cast<double>(before_tokens) / before_ns;
  return static_cast<double>(after_tokens) / after_ns / before - 1;
}

double Advice::memory_gain() const {
  return before_peak_bytes > 0
             ? 1 - static_cast<double>(after_peak_bytes) / static_cast<double>(before_peak_bytes)
             : 0;
}

record::AdviceRecord Advice::record() const {
  return {title,     reason,   command,           time_gain(),      memory_gain(),
          before_ns, after_ns, before_peak_bytes, after_peak_bytes, is_same_training,
          confidence};
}

std::vector<Advice> advise(const measure::TrainingExperiment& present,
                           const passes::PassTarget& target,
                           const cost::Ceilings& ceilings,
                           const AdviceSearch& search) {
  return Search(present, target, ceilings, search).run();
}

}  // namespace ridge::bench
