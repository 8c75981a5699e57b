// SPDX-License-Identifier: Apache-2.0
// A block of GPU memory, and a staging buffer that copies host values to the GPU without waiting.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

#include "backends/backend.h"

namespace ridge::backends::cuda {

class DeviceMemory final : public Memory {
 public:
  // Zero-filled. Throws an out-of-memory Error that includes `what` and the free memory.
  DeviceMemory(int64_t bytes, const char* what);
  ~DeviceMemory() override;
  DeviceMemory(const DeviceMemory&) = delete;
  std::byte* data() const override { return data_; }
  int64_t bytes() const override { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  int64_t bytes_ = 0;
};

// Pinned host memory in sections that are used in turn: a copy to the GPU returns when its bytes
// are staged, and the caller may then change them. A section is reused only when its copies are
// done. Threads fill a section together, because one alone reads a mapped file slower than the bus.
class StagingRing {
 public:
  StagingRing();
  ~StagingRing();
  StagingRing(const StagingRing&) = delete;
  void copy(std::byte* to, const void* from, int64_t bytes, cudaStream_t stream);

 private:
  static constexpr size_t kSections = 4;
  // A copy to the GPU of so many bytes takes far longer than starting it and waking the threads.
  static constexpr int64_t kSectionBytes = int64_t{4} << 20;
  void stage(std::byte* to, const std::byte* from, int64_t bytes, cudaStream_t stream);

  std::byte* host_ = nullptr;
  std::array<cudaEvent_t, kSections> done_{};
  size_t section_ = 0;
  int64_t used_bytes_ = 0;  // in the current section
};

}  // namespace ridge::backends::cuda
