// SPDX-License-Identifier: Apache-2.0
// Allocates GPU memory and stages copies to it.
#include "backends/cuda/device_memory.h"

#include <algorithm>
#include <cstring>

#include "backends/cuda/device_error.h"
#include "base/error.h"

namespace ridge::backends::cuda {

DeviceMemory::DeviceMemory(int64_t bytes, const char* what) : bytes_(bytes) {
  if (bytes == 0) return;
  void* data = nullptr;
  cudaError_t status = cudaMalloc(&data, static_cast<size_t>(bytes));
  if (status == cudaErrorMemoryAllocation) out_of_memory(bytes, what);
  check(status, "allocating memory");
  data_ = static_cast<std::byte*>(data);
  check(cudaMemset(data_, 0, static_cast<size_t>(bytes)), "clearing memory");
  // Wait, because non-blocking streams do not wait for the default stream.
  check(cudaStreamSynchronize(nullptr), "clearing memory");
}

DeviceMemory::~DeviceMemory() { cudaFree(data_); }

StagingRing::StagingRing() {
  void* host = nullptr;
  check(cudaHostAlloc(&host, kSections * static_cast<size_t>(kSectionBytes), cudaHostAllocDefault),
        "allocating pinned memory");
  host_ = static_cast<std::byte*>(host);
  for (cudaEvent_t& event : done_)
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "making an event");
}

StagingRing::~StagingRing() {
  for (cudaEvent_t event : done_) cudaEventDestroy(event);
  cudaFreeHost(host_);
}

void StagingRing::copy(std::byte* to, const void* from, int64_t bytes, cudaStream_t stream) {
  const auto* at = static_cast<const std::byte*>(from);
  for (int64_t begin = 0; begin < bytes; begin += kSectionBytes)
    stage(to + begin, at + begin, std::min(kSectionBytes, bytes - begin), stream);
}

void StagingRing::stage(std::byte* to, const std::byte* from, int64_t bytes, cudaStream_t stream) {
  if (used_bytes_ + bytes > kSectionBytes) {
    check(cudaEventRecord(done_[section_], stream), "staging a copy");
    section_ = (section_ + 1) % kSections;
    used_bytes_ = 0;
    // Returns at once if the event was never recorded.
    check(cudaEventSynchronize(done_[section_]), "staging a copy");
  }
  std::byte* at = host_ + static_cast<int64_t>(section_) * kSectionBytes + used_bytes_;
  used_bytes_ += bytes;
  constexpr int64_t kShareBytes = int64_t{128} << 10;
#pragma omp parallel for schedule(static) if (bytes > kShareBytes)
  for (int64_t begin = 0; begin < bytes; begin += kShareBytes)
    std::memcpy(at + begin, from + begin,
                static_cast<size_t>(std::min(kShareBytes, bytes - begin)));
  check(cudaMemcpyAsync(to, at, static_cast<size_t>(bytes), cudaMemcpyHostToDevice, stream),
        "copying to the GPU");
}

}  // namespace ridge::backends::cuda
