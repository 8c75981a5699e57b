// SPDX-License-Identifier: Apache-2.0
// Reads names and launch geometry from records, and estimates occupancy by CUDA's own formula.
#include "backends/cuda/device_kernels.h"

#include <cuda_occupancy.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "base/demangled.h"

namespace ridge::backends::cuda {
namespace {

// The GPU's limits; all 0 if it does not tell them.
const cudaDeviceProp& limits() {
  static const cudaDeviceProp once = [] {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, 0) != cudaSuccess) cudaGetLastError();
    return properties;
  }();
  return once;
}

// Resident warps over the most that a multiprocessor holds, if enough blocks wait; fewer blocks
// than that fill only a part of the multiprocessors.
double occupancy(const CUpti_ActivityKernel10& record) {
  const cudaDeviceProp& gpu = limits();
  const int64_t threads = int64_t{record.blockX} * record.blockY * record.blockZ;
  if (gpu.warpSize == 0 || threads <= 0 || threads > gpu.maxThreadsPerBlock) return 0;
  const cudaOccDeviceProp properties(gpu);
  cudaOccFuncAttributes attributes;
  attributes.maxThreadsPerBlock = INT_MAX;
  attributes.numRegs = record.registersPerThread;
  attributes.sharedSizeBytes = static_cast<size_t>(record.staticSharedMemory);
  attributes.partitionedGCConfig = PARTITIONED_GC_OFF;
  attributes.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  attributes.maxDynamicSharedSizeBytes = static_cast<size_t>(record.dynamicSharedMemory);
  const cudaOccDeviceState state;
  cudaOccResult result;
  if (cudaOccMaxActiveBlocksPerMultiprocessor(
          &result, &properties, &attributes, &state, static_cast<int>(threads),
          static_cast<size_t>(record.dynamicSharedMemory)) != CUDA_OCC_SUCCESS)
    return 0;
  const int64_t warps = (threads + gpu.warpSize - 1) / gpu.warpSize;
  const double most = static_cast<double>(gpu.maxThreadsPerMultiProcessor) / gpu.warpSize;
  const double blocks = static_cast<double>(record.gridX) * record.gridY * record.gridZ;
  const double resident = std::min<double>(result.activeBlocksPerMultiprocessor,
                                           blocks / std::max(1, gpu.multiProcessorCount));
  return resident * static_cast<double>(warps) / most;
}

const char* copied(uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "Memcpy HtoD";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "Memcpy DtoH";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "Memcpy DtoD";
    default:
      return "Memcpy";
  }
}

}  // namespace

int32_t DeviceKernels::add(std::string key, const record::DeviceKernel& kernel) {
  const auto index = static_cast<int32_t>(kernels_.size());
  const auto [place, is_new] = index_of_.emplace(std::move(key), index);
  if (is_new) kernels_.push_back(kernel);
  return place->second;
}

int32_t DeviceKernels::index(const CUpti_ActivityKernel10& record) {
  const char* name = record.name == nullptr ? "" : record.name;
  std::string key = fmt::format("{} {} {} {} {} {} {} {} {}", record.gridX, record.gridY,
                                record.gridZ, record.blockX, record.blockY, record.blockZ,
                                record.registersPerThread, record.dynamicSharedMemory, name);
  if (auto found = index_of_.find(key); found != index_of_.end()) return found->second;
  record::DeviceKernel kernel;
  kernel.name = demangled(name);
  kernel.grid = {record.gridX, record.gridY, record.gridZ};
  kernel.block = {record.blockX, record.blockY, record.blockZ};
  kernel.registers = record.registersPerThread;
  kernel.static_shared_bytes = record.staticSharedMemory;
  kernel.dynamic_shared_bytes = record.dynamicSharedMemory;
  kernel.occupancy = occupancy(record);
  return add(std::move(key), kernel);
}

int32_t DeviceKernels::index(const CUpti_ActivityMemset4& record) {
  record::DeviceKernel kernel;
  kernel.kind = record::DeviceKernel::Kind::kMemset;
  kernel.name = "Memset (Device)";
  kernel.copied_bytes = static_cast<int64_t>(record.bytes);
  return add(fmt::format("memset {}", record.bytes), kernel);
}

int32_t DeviceKernels::index(const CUpti_ActivityMemcpy6& record) {
  record::DeviceKernel kernel;
  kernel.kind = record::DeviceKernel::Kind::kMemcpy;
  kernel.name = copied(record.copyKind);
  kernel.copied_bytes = static_cast<int64_t>(record.bytes);
  return add(fmt::format("{} {}", kernel.name, record.bytes), kernel);
}

std::vector<record::DeviceKernel> DeviceKernels::take() {
  index_of_.clear();
  return std::exchange(kernels_, {});
}

}  // namespace ridge::backends::cuda
