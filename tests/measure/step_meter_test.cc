// SPDX-License-Identifier: Apache-2.0
// A meter around each step on a device that has an instrument and is launched one kernel at a time,
// and the steps that its record has.
#include "measure/step_meter.h"

#include <gtest/gtest.h>

#include "backends/null/null_backend.h"
#include "base/clock.h"
#include "cost/made_up_ceilings.h"

namespace ridge::measure {
namespace {

// An instrument that is never started.
class Instrument final : public backends::Instrument {
 public:
  int rests = 0;
  backends::Observed observe(std::span<const backends::NodeLaunch>, bool) override { return {}; }
  bool start(const backends::Observed&) override { return false; }
  void mark(NodeId) override {}
  void stop(record::ProfiledRun&) override {}
  void rest() override { ++rests; }
};

// The null backend as a device. Its probe takes 1 ms at least, and at calibration took 4 ms.
class Device final : public backends::Backend {
 public:
  Instrument instrument_;
  bool has_instrument = true;
  std::string calls;  // "p": the probe was run, "s": its launches have ended

  std::string_view name() const override { return null_->name(); }
  std::string unsupported(const Graph& g, const Node& n) const override {
    return null_->unsupported(g, n);
  }
  bool takes_input(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return null_->takes_input(g, n, i, l);
  }
  bool takes_output(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return null_->takes_output(g, n, i, l);
  }
  bool runs_in_place(const Graph& g, const Node& n, int o, int i) const override {
    return null_->runs_in_place(g, n, o, i);
  }
  int64_t workspace_bytes(const Graph& g, const Node& n) const override {
    return null_->workspace_bytes(g, n);
  }
  int launches(const Graph& g, const Node& n) const override { return null_->launches(g, n); }
  plan::FlashScores flash_scores(const Call& call) const override {
    return null_->flash_scores(call);
  }
  std::unique_ptr<backends::Memory> allocate(int64_t bytes, const char* what) override {
    return null_->allocate(bytes, what);
  }
  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    null_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    null_->copy_out(to, from, bytes);
  }
  void synchronize() override { calls += 's'; }
  backends::Launch bind(const backends::BindCall& call) override { return null_->bind(call); }
  backends::Instrument* instrument() override { return has_instrument ? &instrument_ : nullptr; }
  const backends::EnqueueProbe* enqueue_probe() override { return &probe_; }

 private:
  void enqueue() {
    calls += 'p';
    for (const double begin_ns = now_ns(); now_ns() - begin_ns < 1e6;) {
    }
  }
  const std::unique_ptr<backends::Backend> null_ = backends::null::make_null_backend();
  const backends::EnqueueProbe probe_ = {
      [this] { enqueue(); },
      [](const cost::Ceilings& ceilings) { return 1000 * ceilings.stream_launch_ns; }};
};

cost::Ceilings launched(double stream_launch_ns) {
  cost::Ceilings c = cost::made_up_ceilings({{1 << 30, 8, 8}}, 50);
  c.stream_launch_ns = stream_launch_ns;
  c.empty_step_ns = 77;
  return c;
}

TEST(LaunchRate, MattersWhereTheHostLaunchesKernelsOneByOne) {
  Device device;
  const cost::Ceilings none = launched(0), some = launched(4000);
  for (const cost::Ceilings* ceilings : {static_cast<const cost::Ceilings*>(nullptr), &none}) {
    LaunchRate rate(device, ceilings);
    EXPECT_FALSE(rate.matters());
    rate.sample();
    EXPECT_TRUE(rate.samples().empty());
  }
  EXPECT_EQ(device.calls, "");
  LaunchRate rate(device, &some);
  EXPECT_TRUE(rate.matters());
  rate.sample(), rate.sample();
  EXPECT_EQ(device.calls, "psps");
  ASSERT_EQ(rate.samples().size(), 2u);
  for (const double each : rate.samples()) {
    EXPECT_GT(each, 0);
    EXPECT_LE(each, 4) << "4 ms by calibration, at least 1 ms now";
  }
  const auto null = backends::null::make_null_backend();
  EXPECT_FALSE(LaunchRate(*null, &some).matters());
}

class DeviceMeter : public testing::Test {
 protected:
  DeviceMeter() {
    e_.steps = 40;
    e_.waits = false;
  }
  void after(StepMeter& meter, int64_t index, bool instrumented, train::StepResult result = {}) {
    meter.after_step({index, instrumented, result});
  }
  static record::RunRecord filled(const StepMeter& meter) {
    record::RunRecord run;
    meter.fill({}, run);
    return run;
  }
  // The first step that is instrumented, or not, before one that is, or not.
  static int64_t find(const StepMeter& meter, bool instrumented, bool next) {
    const train::StepForms forms = meter.forms();
    for (int64_t step = 0; step < 40; ++step)
      if (forms.is_instrumented(step) == instrumented && forms.is_instrumented(step + 1) == next)
        return step;
    ADD_FAILURE();
    return 0;
  }

  Device device_;
  TrainingExperiment e_;
  const cost::Ceilings ceilings_ = launched(4000);
};

TEST_F(DeviceMeter, RestsItsInstrumentBetweenRounds) {
  StepMeter meter(e_, device_, &ceilings_);
  meter.at_boundary(0);
  EXPECT_EQ(device_.instrument_.rests, 1);
  // After the last of several instrumented steps.
  after(meter, find(meter, true, true), true);
  EXPECT_EQ(device_.instrument_.rests, 1);
  after(meter, find(meter, true, false), true);
  EXPECT_EQ(device_.instrument_.rests, 2);
  after(meter, find(meter, false, false), false);
  after(meter, -1, true);
  EXPECT_EQ(device_.instrument_.rests, 2);
  // A run without instruments leaves it alone, and so does a device that has none.
  e_.instrument = false;
  StepMeter plain(e_, device_, &ceilings_);
  plain.at_boundary(0);
  e_.instrument = true;
  device_.has_instrument = false;
  StepMeter without(e_, device_, &ceilings_);
  without.at_boundary(0);
  EXPECT_EQ(device_.instrument_.rests, 2);
}

// Before plain steps that run alone; a warm-up step is none.
TEST_F(DeviceMeter, SamplesTheLaunchRateBeforeAPlainStepAlone) {
  StepMeter meter(e_, device_, &ceilings_);
  const train::StepForms forms = meter.forms();
  size_t expected = 0;
  for (int64_t step = -2; step < 40; ++step) {
    meter.before_step(step, forms.is_instrumented(step));
    expected += step >= 0 && forms.is_alone(step) && !forms.is_instrumented(step) ? 1 : 0;
  }
  EXPECT_GT(expected, 0u);
  EXPECT_LT(expected, 30u);
  EXPECT_EQ(filled(meter).launch_rate_samples.size(), expected);
  EXPECT_EQ(filled(meter).predicted_ns, 77) << "predicted at that rate";
  meter.sample_launch_rate();
  EXPECT_EQ(filled(meter).launch_rate_samples.size(), expected + 1);
  // Where each step waits, all of them are alone but the warm-up.
  e_.waits = true;
  StepMeter waiting(e_, device_, &ceilings_);
  waiting.before_step(-1, false);
  EXPECT_EQ(filled(waiting).predicted_ns, 0) << "nothing was sampled";
  waiting.before_step(0, false), waiting.before_step(39, false);
  EXPECT_EQ(filled(waiting).launch_rate_samples.size(), 2u);
}

TEST_F(DeviceMeter, LeavesOutTheTimesOfStepsThatAreNone) {
  StepMeter meter(e_, device_, &ceilings_);
  train::StepResult result;
  const auto add = [&](int64_t index, double ns, bool instrumented) {
    result.elapsed_ns = ns;
    result.loss = ns / 10;
    after(meter, index, instrumented, result);
  };
  add(-1, 1, false);
  add(0, 20, false);
  add(1, 30, true);
  result.skipped = true, result.loss_scale = 4;
  add(2, 40, false), add(3, 50, true);
  result.overflowed = true, result.loss_scale = 2;
  add(4, 60, false), add(5, 70, true);
  result.skipped = result.overflowed = false;
  result.numerics.emplace();
  add(6, 80, false), add(7, 90, true);
  const record::RunRecord run = filled(meter);
  EXPECT_EQ(run.losses, (std::vector<double>{2, 3, 4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(run.all_wall_ns, (std::vector<double>{20, 30, 40, 50, 60, 70, 80, 90}));
  EXPECT_EQ(run.overflows, 2);
  EXPECT_EQ(run.loss_scale, 2);
  EXPECT_EQ(run.plain_wall_ns, (std::vector<double>{20, 60}));
  EXPECT_EQ(run.step.wall_samples_ns, (std::vector<double>{30, 70}));
  EXPECT_EQ(run.step.step_numbers, (std::vector<int64_t>{1, 5}));
  // Nothing is left out of a run whose times are all that it has.
  e_.instrument = false;
  StepMeter plain(e_, device_, &ceilings_);
  after(plain, 0, false, result);
  EXPECT_EQ(filled(plain).plain_wall_ns.size(), 1u);
}

}  // namespace
}  // namespace ridge::measure
