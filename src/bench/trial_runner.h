// SPDX-License-Identifier: Apache-2.0
// Runs or plans the trials of a bench: on which device, for how long, and with which caches.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "bench/graph_trial.h"
#include "cost/ceilings.h"

namespace ridge::bench {

class TrialRunner {
 public:
  struct Setting {
    bool runs = true;       // if false, nothing runs: counts and predictions alone
    bool predicts = true;   // if false, counts alone
    bool profiles = false;  // points that run get a profile
    Caches caches = Caches::kWarm;
    double budget_ns = 5e8;  // for the samples of a point
    std::function<bool()> is_stopped = [] { return false; };
    std::function<std::unique_ptr<backends::Backend>(const passes::Selection&)> make_backend;
    const passes::PassTarget* planned = nullptr;  // another machine's; null: this machine
    const passes::PassTarget* replaying = nullptr;  // the same where a selection has `capture`
  };
  explicit TrialRunner(Setting setting) : setting_(std::move(setting)) {}

  bool is_stopped() const { return setting_.is_stopped(); }
  // Whether trials run on this machine.
  bool runs() const { return setting_.runs && setting_.planned == nullptr; }
  // Runs the graph, or plans it where nothing runs.
  record::BenchPoint point(const TrialGraph& trial, TrialSetting setting);
  record::BenchPoint plan(const TrialGraph& trial, const TrialSetting& setting);
  // The device that runs graphs with this selection; only for this machine.
  backends::Backend& backend(const passes::Selection& selection);
  const passes::PassTarget& target(const passes::Selection& selection);
  const cost::Ceilings& ceilings() const { return ceilings_; }
  void set_ceilings(cost::Ceilings ceilings) { ceilings_ = std::move(ceilings); }

 private:
  Setting setting_;
  cost::Ceilings ceilings_;
  std::map<std::string, std::unique_ptr<backends::Backend>> backends_;  // by their options
};

// Notes the rates of a data sheet with the FLOPs per byte from which its memory is fast enough for
// its GEMMs, and the notes of its source.
void add_sheet_notes(const cost::Ceilings& ceilings, record::BenchRecord& bench);

// Called after some points of a bench, with a note on the last.
using PointListener = std::function<void(int64_t points, const std::string& note)>;

}  // namespace ridge::bench
