// SPDX-License-Identifier: Apache-2.0
// Builds, plans and runs one attention composite.
#include "bench/attention_trial.h"

#include <malloc.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "base/error.h"
#include "base/process_memory.h"
#include "base/timed_work.h"
#include "base/units.h"
#include "bench/attention_choice.h"
#include "cost/predict.h"
#include "cost/resource_plan.h"
#include "runtime/program.h"

namespace ridge::bench {
namespace {

Graph build(const AttentionTrial& trial, bool flash, const passes::PassTarget& target) {
  AttentionCall call;
  call.heads = trial.heads;
  call.head_size = trial.head_size;
  call.length = trial.sequence;
  const AttentionTrialGraph made = attention_graph(call, flash ? "flash" : "standard", 1);
  return prepare(made.trial, made.setting, target).graph;
}

record::AttentionForm plan_form(const Graph& graph,
                                const plan::Target& target,
                                const cost::Ceilings* ceilings) {
  const cost::CostedGraph costed = cost::count(plan::plan(graph, target));
  const cost::NodeCost sum = cost::total(costed.costs);
  record::AttentionForm form;
  form.launches = sum.launches;
  form.planned_bytes = sum.bytes();
  form.arena_bytes = costed.memory.arena_bytes;
  form.owned_bytes = costed.memory.owned_bytes();
  if (ceilings != nullptr)
    form.predicted_ns =
        cost::predict_repeated_ns(costed, cost::predict_nodes(costed, *ceilings), *ceilings);
  return form;
}

constexpr size_t kMost = 20;     // samples of a form
constexpr size_t kLeast = 6;     // with fewer, an interval covers less than 95%
constexpr double kPatience = 3;  // times the budget that a form may take to get so many

// A bound program. Its first run is a warm-up, and the only one if it takes much longer than the
// budget.
class Running {
 public:
  Running(Graph graph, backends::Backend& backend, record::AttentionForm& form)
      : store_(backend), program_(backend, store_), form_(form) {
    ::malloc_trim(0);
    const bool is_measured = reset_peak_memory();
    const int64_t before = backend.taken_memory().resident_bytes;
    program_.add("attention", std::move(graph));
    program_.bind();
    for (const std::string& name : store_.names()) fill_operand(store_, name, {});
    warmup_ns_ = once();
    if (is_measured)
      form_.measured_bytes = std::max<int64_t>(0, backend.taken_memory().peak_bytes - before);
  }

  // Whether another sample is wanted.
  bool goes_on(double budget_ns) const {
    if (warmup_ns_ >= kPatience * budget_ns || samples_.size() >= kMost) return false;
    return spent_ns_ < (samples_.size() < kLeast ? kPatience : 1) * budget_ns;
  }
  void sample() {
    samples_.push_back(once());
    spent_ns_ += samples_.back();
  }
  void finish() {
    if (samples_.empty()) samples_.push_back(warmup_ns_);
    form_.time = summarize(samples_);
  }

 private:
  double once() {
    return timed_ns([this] {
      program_.run(0);
      program_.wait();
    });
  }

  runtime::Store store_;
  runtime::Program program_;
  record::AttentionForm& form_;
  double warmup_ns_ = 0, spent_ns_ = 0;
  std::vector<double> samples_;
};

std::string why_not(const record::AttentionForm& form, const AttentionLimits& limits) {
  if (form.owned_bytes > limits.memory_bytes)
    return fmt::format("needs {}, limit {}", format_bytes(form.owned_bytes),
                       format_bytes(limits.memory_bytes));
  if (limits.time_ns > 0 && form.predicted_ns > limits.time_ns)
    return fmt::format("would take {}", format_ns(form.predicted_ns));
  return "";
}

}  // namespace

record::AttentionRecord try_attention(const AttentionTrial& trial,
                                      const AttentionLimits& limits,
                                      backends::Backend& backend,
                                      const cost::Ceilings* ceilings) {
  record::AttentionRecord record{trial.heads, trial.head_size, trial.sequence, {}, {}};
  std::vector<std::unique_ptr<Running>> forms;
  for (bool flash : {false, true}) {
    record::AttentionForm& form = flash ? record.flash : record.standard;
    Graph graph = build(trial, flash, backend);
    form = plan_form(graph, backend, ceilings);
    form.skipped = why_not(form, limits);
    if (form.skipped.empty())
      forms.push_back(std::make_unique<Running>(std::move(graph), backend, form));
  }
  // Interleaved, so that a disturbance of the machine affects both.
  for (bool is_any = true; is_any;) {
    is_any = false;
    for (const auto& each : forms)
      if (each->goes_on(limits.budget_ns)) {
        each->sample();
        is_any = true;
      }
  }
  for (const auto& each : forms) each->finish();
  forms.clear();
  ::malloc_trim(0);
  return record;
}

record::AttentionReach standard_reach(const AttentionTrial& trial,
                                      int64_t memory_bytes,
                                      const passes::PassTarget& target) {
  constexpr int64_t kMost = int64_t{1} << 22;
  AttentionTrial longer = trial;
  int64_t reach = cost::largest_fitting(memory_bytes, kMost, [&](int64_t sequence) {
    longer.sequence = std::max<int64_t>(sequence, 1);
    return plan_form(build(longer, false, target), target, nullptr).owned_bytes;
  });
  return {trial.head_size, memory_bytes, reach};
}

}  // namespace ridge::bench
