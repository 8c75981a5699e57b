// SPDX-License-Identifier: Apache-2.0
// How many rounds a calibration makes and which samples it keeps, to the nanosecond: the machine's
// clock stands still but for the probe, and what others use is given for each round.
#include <gtest/gtest.h>

#include "measure/calibration.h"

namespace ridge::measure {
namespace {

// One probe. Each of its runs takes `run_ns`, and as many more as were made before it times
// `more_ns`.
class OneProbe final : public backends::Calibration {
 public:
  explicit OneProbe(double run_ns, bool prepares = true) : run_ns_(run_ns) {
    probe_ = &probes_.add("work", [this] { clock_ns_ += run_ns_ + more_ns * ++runs; });
    if (prepares) probe_->prepare = [this] { ++prepared, clock_ns_ += prepare_ns; };
  }

  backends::ProbeList& probes() override { return probes_; }
  cost::Ceilings ceilings() override {
    ++finished;
    cost::Ceilings c;
    const double cache = is_implausible ? 1 : 3;
    c.bandwidth = {{1 << 20, cache, cache}, {1 << 30, 2, 2}};
    c.levels = {{"L2", 1 << 20, cache, cache, 0}, {"memory", 1 << 30, 2, 2, 0}};
    c.products.emplace_back().peak_flops_per_ns = 100;
    c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = 1;
    return c;
  }
  // The shares that others use by round; the last one holds on.
  cost::Ceilings calibrate(const std::vector<double>& shares,
                           const CalibrationProgress& progress = {}) {
    return measure::calibrate(
        *this, progress,
        {[this] { return clock_ns_; },
         [this, shares] {
           // A round asks before it begins, which says nothing of it, and at its end.
           const auto asked = static_cast<size_t>(asked_++);
           return asked % 2 == 0 ? 1 : shares[std::min(asked / 2, shares.size() - 1)];
         }});
  }
  int rounds() const { return asked_ / 2; }
  double now_ns() const { return clock_ns_; }
  const std::vector<double>& samples() const { return probe_->samples_ns; }

  double more_ns = 0, prepare_ns = 0;
  bool is_implausible = false;
  int runs = 0, prepared = 0, finished = 0;

 private:
  double run_ns_, clock_ns_ = 0;
  int asked_ = 0;
  backends::ProbeList probes_;
  backends::Probe* probe_ = nullptr;
};

// The first run warms up, and then as many runs are tried as a sample needs to last 150 us.
TEST(CalibrationRounds, SamplesOfShortProbesHaveSeveralRuns) {
  OneProbe two(100e3, false), one(150e3, false), four(74e3, false);
  two.calibrate({0}), one.calibrate({0}), four.calibrate({0});
  EXPECT_EQ(one.runs, 1 + 1 + 10);
  EXPECT_EQ(two.runs, 1 + 1 + 2 + 10 * 2);
  EXPECT_EQ(four.runs, 1 + 1 + 2 + 4 + 10 * 4);
  EXPECT_EQ(two.samples(), std::vector<double>(10, 100e3));
  EXPECT_EQ(four.samples(), std::vector<double>(10, 74e3));
}

// A run that is prepared each time is a sample alone, without the preparation.
TEST(CalibrationRounds, SamplesOfPreparedProbesAreOneRun) {
  OneProbe probe(100e3);
  probe.prepare_ns = 70e3;
  probe.calibrate({0});
  EXPECT_EQ(probe.runs, 1 + 10);
  EXPECT_EQ(probe.prepared, 10);
  EXPECT_EQ(probe.samples(), std::vector<double>(10, 100e3));
}

TEST(CalibrationRounds, ALongProbeSitsOutEverySecondQuietRound) {
  const auto samples = [](double run_ns, double prepare_ns, const std::vector<double>& shares) {
    OneProbe probe(run_ns);
    probe.prepare_ns = prepare_ns;
    probe.calibrate(shares);
    EXPECT_EQ(probe.rounds(), 10);
    return probe.runs - 1;
  };
  EXPECT_EQ(samples(20e6, 0, {0}), 10) << "just not long";
  EXPECT_EQ(samples(20e6 + 1, 0, {0}), 5);
  EXPECT_EQ(samples(6e6, 15e6, {0}), 5) << "long with its preparation";
  // The samples of rounds 0 and 1 do not count, so it takes part in 1 and 2; then in 4, 6, 8.
  EXPECT_EQ(samples(30e6, 0, {0.5, 0.5, 0}), 6);
}

// A warm-up of 1.2 s, and a sample of as much in every second round. After exactly 6 s it goes on.
TEST(CalibrationRounds, EndAfterSixSecondsOnAQuietMachine) {
  OneProbe probe(1.2e9);
  probe.calibrate({0});
  EXPECT_EQ(probe.now_ns(), 7.2e9);
  EXPECT_EQ(probe.rounds(), 9);
  EXPECT_EQ(probe.samples(), std::vector<double>(5, 1.2e9));
}

// At least three, however long.
TEST(CalibrationRounds, AreThreeAtLeastOnAQuietMachine) {
  OneProbe probe(10e9);
  probe.calibrate({0});
  EXPECT_EQ(probe.rounds(), 3);
  EXPECT_EQ(probe.now_ns(), 30e9);
}

// One round is enough where it took more than 12 s next to others, and not where it took just that.
TEST(CalibrationRounds, AreFewerNextToOthersThatSlowThem) {
  OneProbe just(6e9), more(6e9 + 1);
  just.calibrate({0.5}), more.calibrate({0.5});
  EXPECT_EQ(just.rounds(), 2);
  EXPECT_EQ(more.rounds(), 1);
  EXPECT_EQ(just.samples(), std::vector<double>(1, 6e9));
}

// Each run takes 1 us longer than the one before. The first round takes 2 s, and ten others 1 s.
TEST(CalibrationRounds, KeepTheFastestThirdNextToOthers) {
  OneProbe probe(1e9 - 100e3);
  probe.more_ns = 1e3;
  const cost::Ceilings c = probe.calibrate({0.3, 0.5, 0.4});
  EXPECT_EQ(probe.rounds(), 11);
  // The first run was the warm-up.
  const auto sample = [](int i) { return 1e9 - 100e3 + 1e3 * (2 + i); };
  EXPECT_EQ(probe.samples(), (std::vector<double>{sample(0), sample(1), sample(2), sample(3)}));
  EXPECT_EQ(c.others_share, 0.5);
  EXPECT_EQ(c.source, "measured next to busy programs");
}

// A tenth of the cores is no disturbance. Rounds 0 and 3 do not count, so others_share is that of
// the others.
TEST(CalibrationRounds, KeepTheSamplesOfQuietRounds) {
  OneProbe probe(10e6);
  probe.more_ns = 1e3;
  const cost::Ceilings c = probe.calibrate({0.5, 0.02, 0.1, 0.1001, 0.03});
  EXPECT_EQ(probe.rounds(), 10);
  std::vector<double> kept;
  for (const int round : {1, 2, 4, 5, 6, 7, 8, 9}) kept.push_back(10e6 + 1e3 * (2 + round));
  EXPECT_EQ(probe.samples(), kept);
  EXPECT_EQ(c.others_share, 0.1);
  EXPECT_EQ(c.source, "measured");
  EXPECT_EQ(c.measured_at.size(), std::string("2026-01-02T03:04:05Z").size());
}

// Three quiet rounds are enough, two are not: then it goes on until 12 s are over.
TEST(CalibrationRounds, AreDisturbedWithFewerThanThreeQuietOnes) {
  OneProbe enough(10e6), few(10e6);
  EXPECT_FALSE(enough.calibrate({0, 0.5, 0, 0.5, 0, 0.5}).disturbed());
  EXPECT_EQ(enough.rounds(), 10);
  EXPECT_EQ(enough.samples().size(), 3u);
  EXPECT_TRUE(few.calibrate({0, 0.5, 0, 0.5}).disturbed());
  EXPECT_EQ(few.now_ns(), 12e9);
  EXPECT_EQ(few.rounds(), 1199);
  EXPECT_EQ(few.samples().size(), (1199u + 2) / 3);
}

// After the rounds, three more at a time as long as they fit into 12 s; they just fit.
TEST(CalibrationRounds, RepeatThreeWhileLevelsAreImplausible) {
  OneProbe probe(15e6);
  probe.more_ns = 0;
  probe.is_implausible = true;
  probe.calibrate({0});
  const int again = (800 - 11) / 3;
  EXPECT_EQ(probe.finished, 1 + again);
  EXPECT_EQ(probe.now_ns(), 12e9);
  EXPECT_EQ(probe.samples().size(), 3u);
}

TEST(CalibrationRounds, TellTheShareOfRoundsOrOfTheTime) {
  std::vector<double> done;
  std::vector<std::string> steps;
  const CalibrationProgress progress = [&](double share, std::string_view step) {
    done.push_back(share);
    steps.emplace_back(step);
  };
  OneProbe by_round(1e6);
  by_round.calibrate({0}, progress);
  ASSERT_EQ(done.size(), 10u);
  for (size_t i = 0; i < 10; ++i) EXPECT_DOUBLE_EQ(done[i], 0.1 * static_cast<double>(i + 1));
  EXPECT_EQ(steps, std::vector<std::string>(10, "measuring"));
  done.clear(), steps.clear();
  OneProbe by_time(10e9 / 4);  // twice in the first round, then in the third
  by_time.calibrate({0}, progress);
  ASSERT_EQ(done.size(), 3u);
  EXPECT_DOUBLE_EQ(done[0], 5.0 / 6);
  EXPECT_DOUBLE_EQ(done[1], 5.0 / 6);
  EXPECT_DOUBLE_EQ(done[2], 1);
  done.clear(), steps.clear();
  OneProbe busy(3e9);
  busy.calibrate({0.5}, progress);
  EXPECT_EQ(done, (std::vector<double>{1, 0.75, 1}));
  EXPECT_EQ(steps, (std::vector<std::string>{"measuring", "other programs are busy; measuring",
                                             "other programs are busy; measuring"}));
}

// A device with a clock of its own.
TEST(CalibrationRounds, AreOneWhereTheProbesTimeThemselves) {
  OneProbe device(1e9);
  device.probes().begin()->times_itself = true;
  int others = 0;
  device.probes().add("another", [&] { ++others; });
  std::vector<double> done;
  std::vector<std::string> steps;
  const cost::Ceilings c = device.calibrate({0.5}, [&](double share, std::string_view step) {
    done.push_back(share);
    steps.emplace_back(step);
  });
  EXPECT_EQ(device.runs, 1);
  EXPECT_EQ(device.prepared, 0);
  EXPECT_EQ(others, 1);
  EXPECT_EQ(device.rounds(), 0);
  EXPECT_EQ(done, (std::vector<double>{0, 0.5}));
  EXPECT_EQ(steps, (std::vector<std::string>{"work", "another"}));
  EXPECT_EQ(c.others_share, 0);
}

}  // namespace
}  // namespace ridge::measure
