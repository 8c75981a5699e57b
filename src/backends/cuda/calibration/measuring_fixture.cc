// SPDX-License-Identifier: Apache-2.0
// Times work with events around it on the stream, and whole steps with the host's clock.
#include "backends/cuda/calibration/measuring_fixture.h"

#include <algorithm>
#include <vector>

#include "backends/cuda/device_error.h"
#include "backends/cuda/gemm.h"
#include "backends/cuda/kernels/probes/ceilings.h"
#include "backends/cuda/recording.h"
#include "backends/random_block.h"
#include "base/clock.h"
#include "base/samples.h"

namespace ridge::backends::cuda {
namespace {

constexpr double kEnoughNs = 1.5e6;  // minimum duration of a timed graph
constexpr int kMostRepeats = 100;
constexpr int kSamples = 5;
// A calibration takes some 6 s on a GPU of its own. Next to another program it takes many times as
// long; after this time each launch is measured once.
constexpr double kPatienceNs = 8e9;

double timed_ns(cudaStream_t stream, const std::function<void()>& work) {
  constexpr double kNsPerMs = 1e6;
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "making an event");
  check(cudaEventCreate(&end), "making an event");
  check(cudaEventRecord(begin, stream), "measuring");
  work();
  check(cudaEventRecord(end, stream), "measuring");
  check(cudaEventSynchronize(end), "measuring");
  float ms = 0;
  check(cudaEventElapsedTime(&ms, begin, end), "measuring");
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  return ms * kNsPerMs;
}

}  // namespace

MeasuringFixture::MeasuringFixture()
    : inputs_(kBytes, "operands of measurements"),
      results_(kBytes, "results of measurements"),
      workspace_(kGemmWorkspaceBytes, "workspace of measurements") {}

void MeasuringFixture::fill(DType dtype) {
  const std::vector<std::byte> block = random_block(dtype, 16 << 20, 3);
  constexpr int64_t kFilledBytes = int64_t{512} << 20;
  for (int64_t at = 0; at < kFilledBytes; at += static_cast<int64_t>(block.size()))
    check(cudaMemcpy(inputs_.data() + at, block.data(), block.size(), cudaMemcpyHostToDevice),
          "filling operands");
}

double MeasuringFixture::ns(const Launch& launch) {
  launch();
  device_.synchronize();
  double first = graph_ns(launch, 2) / 2;
  int repeats = std::clamp(static_cast<int>(kEnoughNs / std::max(first, 1.0)), 2, kMostRepeats);
  return graph_ns(launch, repeats) / repeats;
}

double MeasuringFixture::empty_step_ns(const Launch& launch, int kernels) {
  constexpr int kSteps = 50;
  constexpr int64_t kIdBytes = 4096;
  const std::vector<std::byte> ids(kIdBytes);
  float scalar = 0, result = 0;
  std::unique_ptr<Recording> recording = record(launch, kernels);
  const double graph_ns = replay_ns(*recording);
  StagingRing ring;
  std::vector<double> samples;
  for (int step = 0; step < kSteps; ++step) {
    const double begin_ns = now_ns();
    for (int i = 0; i < 2; ++i) {
      ring.copy(inputs_.data(), &scalar, sizeof scalar, device_.stream());
      ring.copy(inputs_.data(), ids.data(), kIdBytes, device_.stream());
    }
    recording->replay();
    check(cudaMemcpyAsync(&result, results_.data(), sizeof result, cudaMemcpyDeviceToHost,
                          device_.stream()),
          "measuring a step");
    device_.synchronize();
    samples.push_back(now_ns() - begin_ns);
  }
  return std::max(0.0, median(samples) - graph_ns);
}

double MeasuringFixture::others_share() {
  constexpr int kSweeps = 100;
  // A sweep takes half a millisecond, less than a turn of a program. All are enqueued at once: a
  // GPU that waits for the host gives its turn away, and the pause would be between two sweeps.
  const MemorySweep sweep{inputs_.data(), results_.data(), int64_t{1} << 30, 2};
  const auto run = [&] { check(launch_sweep_read(sweep, device_.stream()), "sweeping memory"); };
  run();
  double fastest_ns = timed_ns(device_.stream(), run);
  for (int i = 0; i < kSamples; ++i)
    fastest_ns = std::min(fastest_ns, timed_ns(device_.stream(), run));
  const double all_ns = timed_ns(device_.stream(), [&] {
    for (int i = 0; i < kSweeps; ++i) run();
  });
  return std::max(0.0, 1 - fastest_ns * kSweeps / all_ns);
}

// Records the launches one after the other.
std::unique_ptr<Recording> MeasuringFixture::record(const Launch& launch, int times) {
  std::vector<NodeLaunch> launches;
  for (int i = 0; i < times; ++i) {
    std::vector<int> after;
    if (i > 0) after.push_back(i - 1);
    launches.push_back({kNoNode, launch, std::move(after), false});
  }
  return record_graph(device_, launches, nullptr);
}

double MeasuringFixture::replay_ns(Recording& recording) {
  recording.replay();
  return median_ns([&] { recording.replay(); }, samples());
}

int MeasuringFixture::samples() const { return now_ns() - begin_ns_ < kPatienceNs ? kSamples : 1; }

double MeasuringFixture::graph_ns(const Launch& launch, int repeats) {
  return replay_ns(*record(launch, repeats));
}

double MeasuringFixture::median_ns(const std::function<void()>& work, int samples) {
  std::vector<double> times;
  for (int i = 0; i < samples; ++i) times.push_back(timed_ns(device_.stream(), work));
  return median(times);
}

}  // namespace ridge::backends::cuda
