// SPDX-License-Identifier: Apache-2.0
// The GPU in use: its properties, and the stream that launches go to. Memory planning and kernels
// are elsewhere.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "base/dtype.h"

namespace ridge::backends::cuda {

struct DeviceFacts {
  std::string name;  // "NVIDIA H200"
  int capability_major = 0;
  int capability_minor = 0;
  int multiprocessors = 0;
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
  double clock_ghz = 0;  // the highest that the driver states
  double memory_clock_ghz = 0;
  int memory_bus_bits = 0;
  int driver_version = 0;  // 13000: CUDA 13.0
  int runtime_version = 0;

  std::string architecture() const;  // "sm_90"
};

// FLOPs of products per clock and multiprocessor, from the manufacturer's documents; 0 for GPUs
// that this table lacks.
double flops_per_clock(const DeviceFacts& facts, DType dtype, bool tf32);

// The driver reports this before a GPU is opened. Versions are as CUDA encodes them: 13000 for
// 13.0. A driver_version of 0 means that there is no driver.
struct DriverAnswer {
  int driver_version = 0;
  int runtime_version = 0;
  cudaError_t status = cudaSuccess;  // the call that counts the GPUs returns it
  int devices = 0;
};
// Returns an empty string if a GPU can be used, otherwise what is missing.
std::string missing_device(const DriverAnswer& answer);
std::string missing_device();  // on this machine
int device_count();            // those that can be used

class Device {
 public:
  // Opens the first GPU. Throws a device Error if there is no GPU, no driver, or the driver or the
  // GPU is too old.
  Device();
  ~Device();
  Device(const Device&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  // Each launch must read the stream anew: it changes while independent branches are recorded.
  cudaStream_t stream() const { return stream_; }
  void set_stream(cudaStream_t stream) { stream_ = stream; }
  void synchronize() const;

 private:
  DeviceFacts facts_;
  cudaStream_t own_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace ridge::backends::cuda
