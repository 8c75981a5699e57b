// SPDX-License-Identifier: Apache-2.0
// Host code that differs between CUDA and HIP: runtime types and the few calls that launches make,
// under CUDA's names, which are global there too. The device side is in gpu_dialect.cuh.
#pragma once

#ifdef __HIP__
#include <hip/hip_runtime.h>

using cudaError_t = hipError_t;
using cudaStream_t = hipStream_t;
inline constexpr cudaError_t cudaSuccess = hipSuccess;
inline constexpr cudaError_t cudaErrorInvalidValue = hipErrorInvalidValue;
inline cudaError_t cudaGetLastError() { return hipGetLastError(); }
inline constexpr auto cudaDevAttrMultiProcessorCount = hipDeviceAttributeMultiprocessorCount;
inline cudaError_t cudaGetDevice(int* device) { return hipGetDevice(device); }
inline cudaError_t cudaDeviceGetAttribute(int* value, hipDeviceAttribute_t attribute, int device) {
  return hipDeviceGetAttribute(value, attribute, device);
}
inline constexpr auto cudaFuncAttributeMaxDynamicSharedMemorySize =
    hipFuncAttributeMaxDynamicSharedMemorySize;
template <typename Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, hipFuncAttribute attribute, int value) {
  return hipFuncSetAttribute(reinterpret_cast<const void*>(kernel), attribute, value);
}
inline cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                 const void* kernel,
                                                                 int threads,
                                                                 size_t shared_bytes) {
  return hipOccupancyMaxActiveBlocksPerMultiprocessor(blocks, kernel, threads, shared_bytes);
}
#else
#include <cuda_runtime_api.h>
#endif
