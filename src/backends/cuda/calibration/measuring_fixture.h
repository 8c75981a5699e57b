// SPDX-License-Identifier: Apache-2.0
// Times generic work: provides operands, and times launches that are repeated inside a CUDA graph
// so that the host's time does not count, or made as a run makes them. calibration.cc and
// launch_ceilings.cc choose the work.
#pragma once

#include <functional>
#include <memory>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/device_memory.h"
#include "base/clock.h"
#include "base/dtype.h"

namespace ridge::backends::cuda {

class MeasuringFixture {
 public:
  static constexpr int64_t kBytes = int64_t{2} << 30;  // size of the operands, and of the results

  MeasuringFixture();

  Device& device() { return device_; }
  std::byte* input() const { return inputs_.data(); }
  std::byte* result() const { return results_.data(); }
  std::byte* workspace() const { return workspace_.data(); }

  // Fills the operands with random numbers in [-0.5, 0.5), repeated from one block, because zeros
  // multiply faster.
  void fill(DType dtype);

  // Nanoseconds of one launch inside a graph: the median over several replays of a graph with many
  // launches.
  double ns(const Launch& launch);

  // The time of a step of `kernels` launches inside a graph, minus the graph's time. A step copies
  // small inputs in, launches the graph, copies a result out and waits for it.
  double empty_step_ns(const Launch& launch, int kernels);

  // The share of the GPU's time that other programs take now, 0 to 1. The driver lets programs take
  // turns of some milliseconds, so that work that is longer than a turn takes longer next to
  // another program than the sum of its parts, each of which fits into one.
  double others_share();

 private:
  std::unique_ptr<Recording> record(const Launch& launch, int times);
  double replay_ns(Recording& recording);
  double graph_ns(const Launch& launch, int repeats);
  double median_ns(const std::function<void()>& work, int samples);
  int samples() const;

  const double begin_ns_ = now_ns();
  Device device_;
  DeviceMemory inputs_, results_, workspace_;
};

}  // namespace ridge::backends::cuda
