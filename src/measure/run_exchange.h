// SPDX-License-Identifier: Apache-2.0
// Joins what the ranks of a training have measured: the first rank then has the times of all.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "cost/ceilings.h"
#include "record/rank_times.h"
#include "runtime/rank_clock.h"
#include "runtime/ranks.h"
#include "train/observer.h"

namespace ridge::measure {

// Makes the trace of this rank: fills `events`, `written` and `dropped` of its lane. The timeline
// of the record begins `begin_ns` after that of the rank that was first.
using TraceLane =
    std::function<void(const record::RunRecord& own, int64_t begin_ns, record::RankLane& lane)>;

// Keeps the instrumented steps of this rank. All ranks make one, and instrument the same steps.
class RankMeter final : public train::Observer {
 public:
  // Compares the clocks; without it on GPUs, where the ends of collectives are compared instead.
  RankMeter(const runtime::Ranks& ranks, bool on_gpu);

  void after_step(const train::StepEvent& event) override;

  // After the last step; all ranks call it, with the record of their own run and its graphs. The
  // first one gets the times of all, the others an empty record. `ceilings` may be null.
  record::ExchangeRecord join(const record::RunRecord& run,
                              std::span<const cost::ProgramGraph> graphs,
                              const cost::Ceilings* ceilings,
                              const TraceLane& trace);

 private:
  const record::InstrumentedStep& common_step(int64_t own) const;
  int64_t timeline_begin(const record::StepRecord& step, double clock_ns) const;
  record::ExchangeRecord gather(const record::RankSteps& own, const record::RankLane& lane) const;

  const runtime::Ranks& ranks_;
  bool on_gpu_;
  runtime::RankClock clock_;
  std::vector<record::InstrumentedStep> steps_;
};

}  // namespace ridge::measure
