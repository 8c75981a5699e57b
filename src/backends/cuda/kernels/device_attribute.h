// SPDX-License-Identifier: Apache-2.0
// Facts about the current device, for the choice of a launch.
#pragma once

#include <cuda_runtime.h>

namespace ridge::backends::cuda {

// 0 if it cannot be asked.
inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (cudaDeviceGetAttribute(&value, attribute, device) != cudaSuccess) return 0;
  return value;
}

// 90 for compute capability 9.0.
inline int compute_capability() {
  static const int capability = 10 * device_attribute(cudaDevAttrComputeCapabilityMajor) +
                                device_attribute(cudaDevAttrComputeCapabilityMinor);
  return capability;
}
// Those of an H200 without a device.
inline int multiprocessors() {
  static const int count = device_attribute(cudaDevAttrMultiProcessorCount);
  return count > 0 ? count : 132;
}
// Products of warpgroups (wgmma), of which later GPUs have none.
inline bool has_warpgroups() { return compute_capability() == 90; }
// Clusters of blocks.
inline bool has_clusters() { return compute_capability() >= 90; }

}  // namespace ridge::backends::cuda
