// SPDX-License-Identifier: Apache-2.0
// The GPU in use: what it is, and the stream that launches
// go to. Not its memory's plan, and not the kernels.
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
  double clock_ghz = 0;  // the highest that the vendor states
  double memory_clock_ghz = 0;
  int memory_bus_bits = 0;
  int driver_version = 0;  // 13000: CUDA 13.0
  int runtime_version = 0;

  std::string architecture() const;  // "sm_90"
};

// FLOPs of products a clock and multiprocessor by the maker's documents; 0 where this table ends.
double flops_per_clock(const DeviceFacts& facts, DType dtype, bool tf32);

// What the driver answers before a GPU is opened. Versions as CUDA writes them, 13000 for 13.0; a
// driver's of 0 is no driver.
struct DriverAnswer {
  int driver_version = 0;
  int runtime_version = 0;
  cudaError_t status = cudaSuccess;  // of counting the GPUs
  int devices = 0;
};
// Empty where a GPU can be used, else what is missing.
std::string missing_device(const DriverAnswer& answer);
std::string missing_device();  // on this machine

class Device {
 public:
  // The first GPU. Throws a device Error where there is none, no driver, or one too old.
  Device();
  ~Device();
  Device(const Device&) = delete;

  const DeviceFacts& facts() const { return facts_; }
  // Read at each launch: while independent branches are recorded it is another one.
  cudaStream_t stream() const { return stream_; }
  void set_stream(cudaStream_t stream) { stream_ = stream; }
  void synchronize() const;

 private:
  DeviceFacts facts_;
  cudaStream_t own_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

}  // namespace ridge::backends::cuda
