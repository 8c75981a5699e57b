// SPDX-License-Identifier: Apache-2.0
// Finds the GPU and reads its properties.
#include "backends/cuda/device.h"

#include <fmt/format.h>

#include "backends/cuda/device_error.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

std::string version(int number) { return fmt::format("{}.{}", number / 1000, number % 1000 / 10); }

int attribute(cudaDeviceAttr which) {
  int value = 0;
  check(cudaDeviceGetAttribute(&value, which, 0), "asking the GPU for its facts");
  return value;
}

DeviceFacts read_facts() {
  DeviceFacts facts;
  cudaDeviceProp properties{};
  check(cudaGetDeviceProperties(&properties, 0), "asking the GPU for its facts");
  facts.name = properties.name;
  facts.capability_major = properties.major;
  facts.capability_minor = properties.minor;
  facts.multiprocessors = properties.multiProcessorCount;
  facts.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  facts.l2_bytes = properties.l2CacheSize;
  facts.clock_ghz = attribute(cudaDevAttrClockRate) * 1e-6;
  facts.memory_clock_ghz = attribute(cudaDevAttrMemoryClockRate) * 1e-6;
  facts.memory_bus_bits = properties.memoryBusWidth;
  check(cudaDriverGetVersion(&facts.driver_version), "asking for the driver's version");
  check(cudaRuntimeGetVersion(&facts.runtime_version), "asking for the runtime's version");
  return facts;
}

}  // namespace

std::string DeviceFacts::architecture() const {
  return fmt::format("sm_{}{}", capability_major, capability_minor);
}

double flops_per_clock(const DeviceFacts& facts, DType dtype, bool tf32) {
  if (dtype == DType::kF32 && !tf32) return 256;
  double bf16 = facts.capability_major == 9                                  ? 4096
                : facts.capability_major == 8 && facts.capability_minor == 0 ? 2048
                                                                             : 0;
  return dtype == DType::kF32 ? bf16 / 2 : bf16;
}

std::string missing_device(const DriverAnswer& answer) {
  if (answer.driver_version == 0)
    return "this machine has no NVIDIA driver (libcuda.so.1 cannot be opened)";
  if (answer.status == cudaErrorInsufficientDriver)
    return fmt::format(
        "the NVIDIA driver is too old: it supports CUDA {}, but this program needs {}",
        version(answer.driver_version), version(answer.runtime_version));
  if (answer.status == cudaErrorNoDevice || (answer.status == cudaSuccess && answer.devices == 0))
    return "the NVIDIA driver finds no GPU on this machine";
  if (answer.status != cudaSuccess)
    return fmt::format("the NVIDIA driver cannot be started: {}",
                       cudaGetErrorString(answer.status));
  return "";
}

namespace {

DriverAnswer ask_driver() {
  DriverAnswer answer;
  cudaRuntimeGetVersion(&answer.runtime_version);
  if (cudaDriverGetVersion(&answer.driver_version) != cudaSuccess) answer.driver_version = 0;
  if (answer.driver_version > 0) answer.status = cudaGetDeviceCount(&answer.devices);
  cudaGetLastError();
  return answer;
}

}  // namespace

std::string missing_device() { return missing_device(ask_driver()); }

int device_count() {
  const DriverAnswer answer = ask_driver();
  return missing_device(answer).empty() ? answer.devices : 0;
}

Device::Device() {
  std::string missing = missing_device();
  if (!missing.empty()) throw Error("[cuda] " + missing, ExitCode::kDevice);
  check(cudaSetDevice(0), "opening the GPU");
  facts_ = read_facts();
  constexpr int kOldest = 8;
  if (facts_.capability_major < kOldest)
    throw Error(
        fmt::format("[cuda] expected a GPU of compute capability {}.0 or newer, got {} ({}.{})",
                    kOldest, facts_.name, facts_.capability_major, facts_.capability_minor),
        ExitCode::kDevice);
  check(cudaStreamCreateWithFlags(&own_, cudaStreamNonBlocking), "making a stream");
  stream_ = own_;
}

Device::~Device() { cudaStreamDestroy(own_); }

void Device::synchronize() const { check(cudaStreamSynchronize(stream_), "waiting for the GPU"); }

}  // namespace ridge::backends::cuda
