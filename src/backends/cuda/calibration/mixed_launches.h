// SPDX-License-Identifier: Apache-2.0
// Measures the host's current time for launches outside a graph, enqueued like those of a step:
// different small kernels, each with its operands and started early, and GEMMs through cuBLASLt
// among them. The same kernel launched repeatedly would stay in the host's nearest caches, and an
// empty kernel without operands takes up to a quarter longer. When the host slows down, GEMM calls
// slow down by more than small kernels.
#pragma once

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
  // The host's time for a product of the type, as a multiple of that for a small kernel.
  double call_ratio(DType dtype) const;
  // A probe of 200 launches. It takes 1 ms and is this short because a step that follows 10 ms of
  // little device work takes up to a sixth longer. The device and this object must outlive the
  // probe.
  EnqueueProbe probe() const;

 private:
  std::vector<Launch> products(DType dtype) const;
  // The small kernels, with every fifth one replaced by these products in turn.
  std::vector<Launch> among_small(const std::vector<Launch>& products) const;
  double enqueue_ns(const std::vector<Launch>& launches) const;

  const Device& device_;
  bool tf32_;
  DeviceMemory memory_;
  std::vector<Launch> small_, with_f32_, with_bf16_, with_both_;
};

}  // namespace ridge::backends::cuda
