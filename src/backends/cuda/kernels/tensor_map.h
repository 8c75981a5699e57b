// SPDX-License-Identifier: Apache-2.0
// The driver's function that describes a tensor to the
// copy engine, found at run time. Not the descriptions.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace ridge::backends::cuda {

// Null where the driver has none.
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
