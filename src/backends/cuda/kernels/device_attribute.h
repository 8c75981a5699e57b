// SPDX-License-Identifier: Apache-2.0
// A fact about the current device, for the choice of a launch.
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

}  // namespace ridge::backends::cuda
