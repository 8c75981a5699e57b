// SPDX-License-Identifier: Apache-2.0
// Runs the probes in rounds.
#include "measure/calibration.h"

#include <algorithm>
#include <map>

#include "base/clock.h"
#include "base/timed_work.h"
#include "measure/cpu_load.h"

namespace ridge::measure {
namespace {

using backends::Probe;

// No new round starts after this time. Including binding and filling operands, calibration stays
// under 20 s on two cores.
constexpr double kBudgetNs = 13e9;
constexpr int kLeastRounds = 3, kMostRounds = 15;
// In a sample of this length, the clock's 50 ns and its jitter are one part in a thousand.
constexpr double kSampleNs = 150e3;
constexpr int64_t kMostRepeats = 1 << 20;
// Probes with longer samples need only half as many of them.
constexpr double kLongNs = 20e6;

double time_ns(const std::function<void()>& run, int64_t repeats) {
  return timed_ns([&] {
    for (int64_t i = 0; i < repeats; ++i) run();
  });
}

// The sampling state of one probe.
struct Sampling {
  int64_t repeats = 0;  // runs per sample; 0: not yet warmed up
  double spent_ns = 0;  // time of the last sample, including preparation
};

void sample(Probe& probe, Sampling& sampling) {
  if (sampling.repeats == 0) {
    probe.run();
    sampling.repeats = 1;
    while (!probe.prepare && sampling.repeats < kMostRepeats &&
           time_ns(probe.run, sampling.repeats) < kSampleNs)
      sampling.repeats *= 2;
  }
  const double preparing_ns = probe.prepare ? time_ns(probe.prepare, 1) : 0;
  const double ns = time_ns(probe.run, sampling.repeats);
  sampling.spent_ns = preparing_ns + ns;
  probe.samples_ns.push_back(ns / static_cast<double>(sampling.repeats));
}

void run_self_timed(backends::ProbeList& probes, const CalibrationProgress& progress) {
  size_t done = 0;
  for (Probe& probe : probes) {
    if (progress)
      progress(static_cast<double>(done++) / static_cast<double>(probes.size()), probe.name);
    probe.run();
  }
}

void run_rounds(backends::ProbeList& probes, const CalibrationProgress& progress) {
  std::map<const Probe*, Sampling> samplings;
  const double begin = now_ns();
  for (int round = 0; round < kMostRounds; ++round) {
    if (round >= kLeastRounds && now_ns() - begin > kBudgetNs) break;
    size_t done = 0;
    for (Probe& probe : probes) {
      Sampling& sampling = samplings[&probe];
      const bool sits_out = round % 2 == 1 && sampling.spent_ns > kLongNs;
      if (!sits_out) sample(probe, sampling);
      // The number of rounds is not known in advance. Late in the run, the share of the time budget
      // is the better estimate.
      const double by_round =
          (round + static_cast<double>(++done) / static_cast<double>(probes.size())) / kMostRounds;
      if (progress)
        progress(std::min(1.0, std::max(by_round, (now_ns() - begin) / kBudgetNs)), "measuring");
    }
  }
}

}  // namespace

cost::Ceilings calibrate(backends::Calibration& calibration, const CalibrationProgress& progress) {
  backends::ProbeList& probes = calibration.probes();
  const bool by_device = std::any_of(probes.begin(), probes.end(),
                                     [](const Probe& probe) { return probe.times_itself; });
  const CpuLoad load;
  if (by_device)
    run_self_timed(probes, progress);
  else
    run_rounds(probes, progress);
  const double others_share = by_device ? 0 : load.others_share();
  cost::Ceilings ceilings = calibration.ceilings();
  ceilings.source = "measured";
  ceilings.measured_at = utc_now();
  ceilings.others_share = others_share;
  cost::validate(ceilings);
  return ceilings;
}

}  // namespace ridge::measure
