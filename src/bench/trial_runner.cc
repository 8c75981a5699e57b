// SPDX-License-Identifier: Apache-2.0
// Makes backends when a trial needs them.
#include "bench/trial_runner.h"

#include <fmt/format.h>

#include "base/units.h"

namespace ridge::bench {
namespace {

std::string ridge_points(const cost::Ceilings& ceilings) {
  if (ceilings.levels.empty()) return "";
  const double bandwidth = ceilings.levels.back().theoretical_bytes_per_ns;
  std::string text;
  for (const cost::ProductRates& each : ceilings.products)
    if (each.theoretical_flops_per_ns > 0 && bandwidth > 0)
      text += fmt::format("; {} {}, {:.2f} FLOP/B", each.name(),
                          format_rate(1e9 * each.theoretical_flops_per_ns, "FLOP/s"),
                          each.theoretical_flops_per_ns / bandwidth);
  return text.empty() ? ""
                      : fmt::format("data sheet, with ridge points: memory {}{}",
                                    format_rate(1e9 * bandwidth, "B/s"), text);
}

}  // namespace

backends::Backend& TrialRunner::backend(const passes::Selection& selection) {
  std::string key;
  for (const char* option : {"tune_gemm", "tf32", "capture", "branches"})
    if (selection.has(option)) key += option;
  std::unique_ptr<backends::Backend>& found = backends_[key];
  if (found == nullptr) found = setting_.make_backend(selection);
  return *found;
}

const passes::PassTarget& TrialRunner::target(const passes::Selection& selection) {
  if (setting_.replaying != nullptr && selection.has("capture")) return *setting_.replaying;
  return setting_.planned != nullptr ? *setting_.planned : backend(selection);
}

record::BenchPoint TrialRunner::plan(const TrialGraph& trial, const TrialSetting& setting) {
  return plan_trial(trial, setting, target(setting.selection),
                    setting_.predicts ? &ceilings_ : nullptr);
}

record::BenchPoint TrialRunner::point(const TrialGraph& trial, TrialSetting setting) {
  if (!runs()) return plan(trial, setting);
  setting.is_profiled = setting_.profiles;
  setting.caches = setting_.caches;
  setting.budget_ns = setting_.budget_ns;
  setting.is_stopped = setting_.is_stopped;
  return run_trial(trial, setting, backend(setting.selection), &ceilings_);
}

void add_sheet_notes(const cost::Ceilings& ceilings, record::BenchRecord& bench) {
  if (const std::string points = ridge_points(ceilings); !points.empty())
    bench.notes.push_back(points);
  if (!bench.is_counts)
    for (const std::string& note : ceilings.notes) bench.notes.push_back(note);
}

}  // namespace ridge::bench
