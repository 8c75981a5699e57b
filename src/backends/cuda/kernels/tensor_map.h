// SPDX-License-Identifier: Apache-2.0
// The driver's function that encodes a tensor map for the copy engine (TMA), found at run time.
// Callers fill in the maps.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace ridge::backends::cuda {

// Null if the driver does not have it.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
  static const auto encoder = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                                12000, cudaEnableDefault, &found);
    if (status != cudaSuccess || found != cudaDriverEntryPointSuccess) function = nullptr;
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return encoder;
}

}  // namespace ridge::backends::cuda
