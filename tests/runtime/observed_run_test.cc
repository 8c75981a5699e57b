// SPDX-License-Identifier: Apache-2.0
// Profiled runs on a device with an instrument, as GPUs have: the host's time for each launch, or
// for the replay of all. The device is the CPU behind another face.
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "backends/cpu/cpu_backend.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "runtime/program.h"

namespace ridge::runtime {
namespace {

class Replay final : public backends::Recording {
 public:
  explicit Replay(std::span<const backends::NodeLaunch> launches)
      : launches_(launches.begin(), launches.end()) {}
  void replay() override {
    for (const backends::NodeLaunch& each : launches_) each.launch();
  }

 private:
  std::vector<backends::NodeLaunch> launches_;
};

// Reports the marked nodes, 10 ns each, and takes 2 ms before and after a run.
class SlowInstrument final : public backends::Instrument {
 public:
  bool holds = false;
  std::vector<NodeId> marks;
  int releases = 0;

  backends::Observed observe(std::span<const backends::NodeLaunch> launches,
                             bool replays) override {
    return {replays ? std::make_unique<Replay>(launches) : nullptr, {}};
  }
  bool start(const backends::Observed& launches) override {
    pause();
    return holds && launches.recording != nullptr;
  }
  void release() override { ++releases; }
  void mark(NodeId node) override { marks.push_back(node); }
  void stop(record::ProfiledRun& run) override {
    pause();
    for (NodeId node : marks)
      run.spans.push_back({node, 10.0 * static_cast<double>(run.spans.size()),
                           10.0 * static_cast<double>(run.spans.size()) + 10, 0});
    run.kernels = {{.name = "kernel"}};
    run.dropped += 3;
  }

 private:
  static void pause() { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }
};

class Device final : public backends::Backend {
 public:
  bool records = false;
  SlowInstrument slow;

  std::string_view name() const override { return cpu_->name(); }
  std::string unsupported(const Graph& g, const Node& n) const override {
    return cpu_->unsupported(g, n);
  }
  bool takes_input(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return cpu_->takes_input(g, n, i, l);
  }
  bool takes_output(const Graph& g, const Node& n, int i, const Layout& l) const override {
    return cpu_->takes_output(g, n, i, l);
  }
  bool runs_in_place(const Graph& g, const Node& n, int o, int i) const override {
    return cpu_->runs_in_place(g, n, o, i);
  }
  int64_t workspace_bytes(const Graph& g, const Node& n) const override {
    return cpu_->workspace_bytes(g, n);
  }
  int launches(const Graph& g, const Node& n) const override { return cpu_->launches(g, n); }
  plan::FlashScores flash_scores(const Call& call) const override {
    return cpu_->flash_scores(call);
  }
  std::unique_ptr<backends::Memory> allocate(int64_t bytes, const char* what) override {
    return cpu_->allocate(bytes, what);
  }
  void copy_in(std::byte* to, const void* from, int64_t bytes) override {
    cpu_->copy_in(to, from, bytes);
  }
  void copy_out(void* to, const std::byte* from, int64_t bytes) override {
    cpu_->copy_out(to, from, bytes);
  }
  void synchronize() override { cpu_->synchronize(); }
  backends::Launch bind(const backends::BindCall& call) override { return cpu_->bind(call); }
  std::unique_ptr<backends::Recording> record(
      std::span<const backends::NodeLaunch> launches) override {
    return records ? std::make_unique<Replay>(launches) : nullptr;
  }
  backends::Instrument* instrument() override { return &slow; }

 private:
  std::unique_ptr<backends::Backend> cpu_ = backends::cpu::make_cpu_backend({});
};

class ObservedRunTest : public testing::Test {
 protected:
  // exp(tanh(x)), whose value a run must compute.
  record::ProfiledRun run() {
    Graph graph;
    Builder b(graph, ops::table());
    const ValueId x = b.input("x", {DType::kF32, {4}});
    graph.outputs = {ops::unary(b, "exp", ops::unary(b, "tanh", x))};
    stage_ = program_.add("stage", graph);
    program_.bind();
    const std::vector<float> zeros(4, 0.0f);
    store_.write("x", zeros.data(), 16);
    program_.run(stage_);  // the first run is not recorded
    record::ProfiledRun run = program_.run_profiled(stage_);
    EXPECT_EQ(program_.read(stage_, program_.graph(stage_).graph().outputs[0]),
              std::vector<float>(4, 1.0f));
    return run;
  }
  void expect_the_instrument_is_apart(const record::ProfiledRun& run) const {
    EXPECT_GT(run.called_ns, 0);
    EXPECT_GE(run.instrument_ns, 4e6);  // it sleeps so long
    EXPECT_EQ(run.dropped, 3);
  }

  Device device_;
  Store store_{device_};
  Program program_{device_, store_};
  int stage_ = 0;
};

TEST_F(ObservedRunTest, EachLaunchIsTimedOnTheHost) {
  const record::ProfiledRun run = this->run();
  expect_the_instrument_is_apart(run);
  ASSERT_EQ(run.enqueues.size(), 2u);
  ASSERT_EQ(device_.slow.marks.size(), 2u);
  double last = 0;
  for (size_t i = 0; i < run.enqueues.size(); ++i) {
    EXPECT_EQ(run.enqueues[i].node, device_.slow.marks[i]);
    EXPECT_GE(run.enqueues[i].begin_ns, last);
    EXPECT_GE(run.enqueues[i].end_ns, run.enqueues[i].begin_ns);
    last = run.enqueues[i].end_ns;
  }
  EXPECT_LE(last, run.wall_ns);
  EXPECT_EQ(run.spans.size(), 2u);
  EXPECT_EQ(run.spans[1].kernel, 0);
  EXPECT_EQ(run.kernels.size(), 1u);
}

TEST_F(ObservedRunTest, AReplayIsOneLaunch) {
  device_.records = true;
  const record::ProfiledRun run = this->run();
  expect_the_instrument_is_apart(run);
  ASSERT_EQ(run.enqueues.size(), 1u);
  EXPECT_EQ(run.enqueues[0].node, kNoNode);
  EXPECT_LE(run.enqueues[0].end_ns, run.wall_ns);
  EXPECT_TRUE(device_.slow.marks.empty());
  EXPECT_EQ(device_.slow.releases, 0);
}

TEST_F(ObservedRunTest, AHeldReplayIsTheReleaseAlone) {
  device_.records = device_.slow.holds = true;
  const record::ProfiledRun run = this->run();
  expect_the_instrument_is_apart(run);
  ASSERT_EQ(run.enqueues.size(), 1u);
  EXPECT_EQ(run.enqueues[0].node, kNoNode);
  EXPECT_EQ(run.enqueues[0].begin_ns, 0);
  EXPECT_EQ(device_.slow.releases, 1);
}

}  // namespace
}  // namespace ridge::runtime
