// SPDX-License-Identifier: Apache-2.0
// Where generic work is timed: operands, and launches repeated inside a graph so that the host does
// not count, or made as a run makes them. What is timed is measure_*.h's.
#pragma once

#include <functional>
#include <memory>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/device_memory.h"
#include "base/dtype.h"

namespace ridge::backends::cuda {

class MeasuringStand {
 public:
  static constexpr int64_t kBytes = int64_t{2} << 30;  // of the operands, and of the results

  MeasuringStand();

  Device& device() { return device_; }
  std::byte* input() const { return inputs_.data(); }
  std::byte* result() const { return results_.data(); }
  std::byte* workspace() const { return workspace_.data(); }

  // Random numbers in [-0.5, 0.5), repeated from one block: zeros multiply faster.
  void fill(DType dtype);

  // Nanoseconds of one launch inside a graph: the median of some graphs of many.
  double ns(const Launch& launch);

  // The time of a step of `kernels` launches inside a graph, less the graph's time: copy small inputs
  // in, launch the graph, copy a result out and wait for it.
  double empty_step_ns(const Launch& launch, int kernels);

 private:
  std::unique_ptr<Recording> record(const Launch& launch, int times);
  double replay_ns(Recording& recording);
  double graph_ns(const Launch& launch, int repeats);
  double median_ns(const std::function<void()>& work, int samples);

  Device device_;
  DeviceMemory inputs_, results_, workspace_;
};

}  // namespace ridge::backends::cuda
