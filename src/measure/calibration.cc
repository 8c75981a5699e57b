// SPDX-License-Identifier: Apache-2.0
// Runs the probes in rounds, and decides which rounds count.
#include "measure/calibration.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>

#include "base/clock.h"
#include "base/openmp_threads.h"
#include "measure/cpu_load.h"

namespace ridge::measure {
namespace {

using backends::Probe;

// No new round starts after this time, once enough rounds were quiet. With binding and filling of
// operands, calibration stays under 8 s on two quiet cores.
constexpr double kQuietNs = 6e9;
// How long it may take next to other programs; what it measured is then provisional, and a later
// run measures again.
constexpr double kMostNs = 12e9;
constexpr int kLeastRounds = 3, kMostRounds = 10;
// In a sample of this length, the clock's 50 ns and its jitter are one part in a thousand.
constexpr double kSampleNs = 150e3;
constexpr int64_t kMostRepeats = 1 << 20;
// Probes with longer samples need only half as many of them.
constexpr double kLongNs = 20e6;
// Long enough for ticks of 10 ms to tell a tenth of the cores' time.
constexpr std::chrono::milliseconds kWatchTime{200};

struct Sample {
  int round = 0;
  double ns = 0;
};

// The sampling state of one probe.
struct Sampling {
  int64_t repeats = 0;  // runs per sample; 0: not yet warmed up
  double spent_ns = 0;  // time of the last sample, including preparation
  std::vector<Sample> samples;
};

class Rounds {
 public:
  Rounds(backends::ProbeList& probes,
         const CalibrationProgress& progress,
         const CalibrationMachine& machine)
      : probes_(probes), progress_(progress), machine_(machine), begin_ns_(machine.now_ns()) {}

  // Rounds until enough of them were quiet, or the time is over.
  void run() {
    while (!is_enough()) run_round();
    keep_samples();
  }

  // As many rounds as are needed at least, in place of those before, if the time suffices. Returns
  // whether it does.
  bool run_again() {
    if (spent_ns() + kLeastRounds * round_ns_ > kMostNs) return false;
    shares_.clear();
    for (auto& [probe, sampling] : samplings_) sampling.samples.clear();
    for (int i = 0; i < kLeastRounds; ++i) run_round();
    keep_samples();
    return true;
  }

  // The largest share of the cores that other programs used in a round whose samples were kept.
  double others_share() const {
    double most = 0;
    for (const double share : shares_)
      if (is_disturbed() || is_quiet(share)) most = std::max(most, share);
    return most;
  }

 private:
  static bool is_quiet(double others_share) { return others_share <= cost::kDisturbingShare; }
  // Whether too few rounds were quiet.
  bool is_disturbed() const { return std::ranges::count_if(shares_, is_quiet) < kLeastRounds; }
  int rounds() const { return static_cast<int>(shares_.size()); }
  double spent_ns() const { return machine_.now_ns() - begin_ns_; }

  bool is_enough() const {
    // Next to many programs one round may take as long as all should; what it measured is
    // provisional in any case.
    if (rounds() < kLeastRounds)
      return !std::ranges::all_of(shares_, is_quiet) && spent_ns() > kMostNs;
    if (is_disturbed()) return spent_ns() + round_ns_ > kMostNs;
    return rounds() >= kMostRounds || spent_ns() > kQuietNs;
  }

  void tell(double in_round) const {
    if (!progress_) return;
    if (!shares_.empty() && !is_quiet(shares_.back()))
      return progress_(std::min(1.0, spent_ns() / kMostNs), "other programs are busy; measuring");
    // The number of rounds is not known in advance. Late in the run, the share of the time is the
    // better estimate.
    const double by_round = (rounds() + in_round) / kMostRounds;
    progress_(std::min(1.0, std::max(by_round, spent_ns() / kQuietNs)), "measuring");
  }

  void run_round() {
    const double begin = machine_.now_ns();
    machine_.others_share();
    size_t done = 0;
    for (Probe& probe : probes_) {
      Sampling& sampling = samplings_[&probe];
      if (!sits_out(sampling)) sample(probe, sampling);
      tell(static_cast<double>(++done) / static_cast<double>(probes_.size()));
    }
    shares_.push_back(machine_.others_share());
    round_ns_ = machine_.now_ns() - begin;
  }

  // A probe with long samples sits out the round after a quiet one of which it has a sample.
  bool sits_out(const Sampling& sampling) const {
    return sampling.spent_ns > kLongNs && !sampling.samples.empty() &&
           sampling.samples.back().round == rounds() - 1 && is_quiet(shares_.back());
  }

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
    sampling.samples.push_back({rounds(), ns / static_cast<double>(sampling.repeats)});
  }

  double time_ns(const std::function<void()>& run, int64_t repeats) const {
    spread_openmp_threads();
    const double begin = machine_.now_ns();
    for (int64_t i = 0; i < repeats; ++i) run();
    return machine_.now_ns() - begin;
  }

  // Gives each probe the samples of quiet rounds. If there are too few of them, the fastest third
  // of all samples: disturbances only add time.
  void keep_samples() {
    for (auto& [probe, sampling] : samplings_) {
      std::vector<double>& kept = probe->samples_ns;
      kept.clear();
      for (const Sample& each : sampling.samples)
        if (is_disturbed() || is_quiet(shares_[static_cast<size_t>(each.round)]))
          kept.push_back(each.ns);
      if (!is_disturbed()) continue;
      std::sort(kept.begin(), kept.end());
      kept.resize((kept.size() + 2) / 3);
    }
  }

  backends::ProbeList& probes_;
  const CalibrationProgress& progress_;
  const CalibrationMachine& machine_;
  const double begin_ns_;
  std::map<Probe*, Sampling> samplings_;
  std::vector<double> shares_;  // others_share() of each round
  double round_ns_ = 0;         // time of the last round
};

void run_self_timed(backends::ProbeList& probes, const CalibrationProgress& progress) {
  size_t done = 0;
  for (Probe& probe : probes) {
    if (progress)
      progress(static_cast<double>(done++) / static_cast<double>(probes.size()), probe.name);
    probe.run();
  }
}

cost::Ceilings measured_ceilings(backends::Calibration& calibration, double others_share) {
  cost::Ceilings ceilings = calibration.ceilings();
  ceilings.measured_at = utc_now();
  ceilings.others_share = std::max(ceilings.others_share, others_share);
  ceilings.source = ceilings.disturbed() ? "measured next to busy programs" : "measured";
  cost::validate(ceilings);
  return ceilings;
}

}  // namespace

CalibrationMachine calibration_machine() {
  auto load = std::make_shared<CpuLoad>();
  return {
      .now_ns = [] { return now_ns(); },
      .others_share =
          [load] {
            const double share = load->others_share();
            *load = CpuLoad();
            return share;
          },
  };
}

cost::Ceilings calibrate(backends::Calibration& calibration,
                         const CalibrationProgress& progress,
                         const CalibrationMachine& machine) {
  backends::ProbeList& probes = calibration.probes();
  const bool by_device = std::any_of(probes.begin(), probes.end(),
                                     [](const Probe& probe) { return probe.times_itself; });
  if (by_device) {
    run_self_timed(probes, progress);
    return measured_ceilings(calibration, 0);
  }
  Rounds rounds(probes, progress, machine);
  rounds.run();
  cost::Ceilings ceilings = measured_ceilings(calibration, rounds.others_share());
  while (!cost::implausible_levels(ceilings).empty() && rounds.run_again())
    ceilings = measured_ceilings(calibration, rounds.others_share());
  return ceilings;
}

double others_share_now() {
  const CpuLoad load;
  std::this_thread::sleep_for(kWatchTime);
  return load.others_share();
}

}  // namespace ridge::measure
