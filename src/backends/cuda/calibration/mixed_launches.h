// SPDX-License-Identifier: Apache-2.0
// Measures the host's current time for launches outside a graph, enqueued like those of a step:
// different small kernels, each with its operands and started early, and GEMMs through cuBLASLt
// among them. The same kernel launched repeatedly would stay in the host's nearest caches, and an
// empty kernel without operands takes up to a quarter longer. When the host slows down, GEMM calls
// slow down by more than small kernels.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/device_memory.h"
#include "cost/ceilings.h"

namespace ridge::backends::cuda {

class MixedLaunches {
 public:
  // `tf32`: fp32 products are computed in TF32. Allocates 50 MiB on the device.
  MixedLaunches(const Device& device, bool tf32);

  // The host's time for a small kernel, ns. This call and call_ratio each take about 10 ms.
  double launch_ns() const;
  // The host's time for a product of the type, f32 or bf16, as a multiple of that for a small
  // kernel. One of one row is a kernel; of others the library may launch two, which split the sums.
  double call_ratio(DType dtype, bool is_row) const;
  // A probe of 200 launches. It takes 1 ms and is this short because a step that follows 10 ms of
  // little device work takes up to a sixth longer. The device and this object must outlive the
  // probe.
  EnqueueProbe probe() const;

 private:
  std::vector<Launch> products(DType dtype, bool is_row) const;
  // The small kernels, with every fifth one replaced by these products in turn.
  std::vector<Launch> among_small(const std::vector<Launch>& products) const;
  double enqueue_ns(const std::vector<Launch>& launches) const;

  const Device& device_;
  bool tf32_;
  DeviceMemory memory_;
  std::vector<Launch> small_, with_both_;
  std::map<std::pair<DType, bool>, std::vector<Launch>> with_;  // as call_ratio has them
};

}  // namespace ridge::backends::cuda
