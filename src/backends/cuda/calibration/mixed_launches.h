// SPDX-License-Identifier: Apache-2.0
// What the host takes now for launches that it makes one by one, enqueued as a step's are: different
// small kernels, each with its operands and ready early, and GEMMs through cuBLASLt among them.
// One kernel over and over would stay in the host's nearest caches, and an empty one, without
// operands, takes up to a quarter longer. A host that slows down is slower by more for GEMMs.
#pragma once

#include <vector>

#include "backends/backend.h"
#include "backends/cuda/device.h"
#include "backends/cuda/device_memory.h"
#include "cost/ceilings.h"

namespace ridge::backends::cuda {

class MixedLaunches {
 public:
  // `tf32`: how products of fp32 are multiplied. Takes 50 MiB of the device.
  MixedLaunches(const Device& device, bool tf32);

  // The host's time for a small kernel, ns. Takes 10 ms or so, as the next.
  double launch_ns() const;
  // How many times as long a product of the type takes it.
  double call_ratio(DType dtype) const;
  // 200 of them. It takes 1 ms: a step after 10 ms with little to do for the device takes up to a
  // sixth longer. The device must outlive it, and this object.
  EnqueueProbe probe() const;

 private:
  std::vector<Launch> products(DType dtype) const;
  // The small kernels, every fifth replaced by these in turn.
  std::vector<Launch> among_small(const std::vector<Launch>& products) const;
  double enqueue_ns(const std::vector<Launch>& launches) const;

  const Device& device_;
  bool tf32_;
  DeviceMemory memory_;
  std::vector<Launch> small_, with_f32_, with_bf16_, with_both_;
};

}  // namespace ridge::backends::cuda
