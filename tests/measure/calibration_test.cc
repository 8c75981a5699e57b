// SPDX-License-Identifier: Apache-2.0
// Which samples of a calibration count, on a machine whose clock and other programs are given.
#include "measure/calibration.h"

#include <gtest/gtest.h>

namespace ridge::measure {
namespace {

constexpr double kBytes = 1e6, kCacheNs = 1e6, kMemoryNs = 3e6;

// Every run takes its usual time, `slower` times as long while another program is busy.
struct FakeMachine {
  double now_ns = 0;
  double slower = 3;
  double busy_until_ns = 0;
  double watched_ns = 0, busy_ns = 0;  // since the share was last asked for

  void work(double ns) {
    const bool is_busy = now_ns < busy_until_ns;
    const double took = is_busy ? slower * ns : ns;
    now_ns += took;
    watched_ns += took;
    if (is_busy) busy_ns += 0.5 * took;
  }
  CalibrationMachine machine() {
    return {.now_ns = [this] { return now_ns; },
            .others_share =
                [this] {
                  const double share = watched_ns > 0 ? busy_ns / watched_ns : 0;
                  watched_ns = busy_ns = 0;
                  return share;
                }};
  }
};

class FakeCalibration final : public backends::Calibration {
 public:
  explicit FakeCalibration(FakeMachine& machine)
      : cache_(probes_.add("cache", [&machine, this] { machine.work(cache_ns); })),
        memory_(probes_.add("memory", [&machine] { machine.work(kMemoryNs); })),
        rest_(probes_.add("everything else", [&machine] { machine.work(1e9); })) {}

  backends::ProbeList& probes() override { return probes_; }
  cost::Ceilings ceilings() override {
    ++finished;
    cost::Ceilings c;
    const double cache = kBytes / cache_.usual_ns(), memory = kBytes / memory_.usual_ns();
    c.bandwidth = {{1 << 20, cache, cache}, {1 << 30, memory, memory}};
    c.levels = {{"L2", 1 << 20, cache, cache, 0}, {"memory", 1 << 30, memory, memory, 0}};
    c.products.emplace_back().peak_flops_per_ns = 100;
    c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = 1;
    return c;
  }

  double cache_ns = kCacheNs;
  int finished = 0;
  size_t samples() const { return rest_.samples_ns.size(); }

 private:
  backends::ProbeList probes_;
  backends::Probe& cache_;
  backends::Probe& memory_;
  backends::Probe& rest_;
};

TEST(Calibration, StopsEarlyOnAQuietMachine) {
  FakeMachine machine;
  FakeCalibration calibration(machine);
  const cost::Ceilings c = calibrate(calibration, {}, machine.machine());
  EXPECT_DOUBLE_EQ(c.levels[0].read_bytes_per_ns, kBytes / kCacheNs);
  EXPECT_EQ(c.others_share, 0);
  EXPECT_FALSE(c.disturbed());
  EXPECT_LT(machine.now_ns, 8e9);
  EXPECT_GE(calibration.samples(), 2);  // a long probe sits out every second round
}

TEST(Calibration, MeasuresAgainWhenOtherProgramsHaveEnded) {
  FakeMachine machine;
  machine.busy_until_ns = 3e9;
  FakeCalibration calibration(machine);
  const cost::Ceilings c = calibrate(calibration, {}, machine.machine());
  EXPECT_DOUBLE_EQ(c.levels[0].read_bytes_per_ns, kBytes / kCacheNs);
  EXPECT_DOUBLE_EQ(c.levels[1].copy_bytes_per_ns, kBytes / kMemoryNs);
  EXPECT_FALSE(c.disturbed());
  EXPECT_LT(machine.now_ns, 14e9);
}

TEST(Calibration, IsProvisionalNextToAProgramThatDoesNotEnd) {
  FakeMachine machine;
  machine.busy_until_ns = 1e12;
  FakeCalibration calibration(machine);
  std::string said;
  const cost::Ceilings c = calibrate(
      calibration, [&](double, std::string_view step) { said = step; }, machine.machine());
  EXPECT_TRUE(c.disturbed());
  EXPECT_DOUBLE_EQ(c.others_share, 0.5);
  EXPECT_EQ(c.source, "measured next to busy programs");
  EXPECT_LT(machine.now_ns, 16e9);
  EXPECT_NE(said.find("other programs are busy"), std::string::npos) << said;
}

// A dozen programs on two cores: one round takes longer than all should.
TEST(Calibration, EndsAfterARoundThatTookTooLong) {
  FakeMachine machine;
  machine.slower = 8;
  machine.busy_until_ns = 1e12;
  FakeCalibration calibration(machine);
  EXPECT_TRUE(calibrate(calibration, {}, machine.machine()).disturbed());
  EXPECT_EQ(calibration.samples(), 1u);
  EXPECT_LT(machine.now_ns, 30e9);
}

// A device times its probes itself, and says how much of it other programs took.
class DeviceCalibration final : public backends::Calibration {
 public:
  explicit DeviceCalibration(double others_share) : others_share_(others_share) {
    probes_.add("memory", [] {}).times_itself = true;
    probes_.add("the rest of it", [this] { ++runs; });
  }
  backends::ProbeList& probes() override { return probes_; }
  cost::Ceilings ceilings() override {
    cost::Ceilings c;
    c.others_share = others_share_;
    c.bandwidth = {{1 << 30, 4000, 4000}};
    c.levels = {{"memory", 1 << 30, 4000, 4000, 0}};
    c.products.emplace_back().peak_flops_per_ns = 1e6;
    c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = 1;
    return c;
  }

  int runs = 0;

 private:
  double others_share_;
  backends::ProbeList probes_;
};

TEST(Calibration, IsProvisionalOnADeviceThatOtherProgramsUse) {
  FakeMachine machine;
  DeviceCalibration alone(0.03), shared(0.6);
  EXPECT_EQ(calibrate(alone, {}, machine.machine()).source, "measured");
  EXPECT_EQ(alone.runs, 1);  // one probe with a clock of its own suffices
  const cost::Ceilings c = calibrate(shared, {}, machine.machine());
  EXPECT_TRUE(c.disturbed());
  EXPECT_EQ(c.source, "measured next to busy programs");
}

// The first rounds gave a cache that is slower than memory, which cannot be.
TEST(Calibration, MeasuresImplausibleLevelsAgain) {
  FakeMachine machine;
  FakeCalibration calibration(machine);
  calibration.cache_ns = 9e6;
  bool is_disturbed = true;
  const CalibrationMachine given = machine.machine();
  const cost::Ceilings c = calibrate(
      calibration,
      [&](double, std::string_view) {
        if (calibration.finished > 0 && is_disturbed) {
          is_disturbed = false;
          calibration.cache_ns = kCacheNs;
        }
      },
      given);
  EXPECT_GT(calibration.finished, 1);
  EXPECT_FALSE(is_disturbed);
  EXPECT_TRUE(cost::implausible_levels(c).empty());
  EXPECT_LT(machine.now_ns, 16e9);
}

TEST(Calibration, EndsWithLevelsThatStayImplausible) {
  FakeMachine machine;
  FakeCalibration calibration(machine);
  calibration.cache_ns = 9e6;
  const cost::Ceilings c = calibrate(calibration, {}, machine.machine());
  const auto found = cost::implausible_levels(c);
  ASSERT_EQ(found.size(), 2);
  EXPECT_EQ(found[0], "L2 reads at 111 MB/s, but memory 333 MB/s");
  EXPECT_LT(machine.now_ns, 16e9);
}

}  // namespace
}  // namespace ridge::measure
