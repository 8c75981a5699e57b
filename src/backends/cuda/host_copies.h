// SPDX-License-Identifier: Apache-2.0
// Small asynchronous copies to the host, into pinned memory. Copies that the host waits for at once
// are not made here.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/index_faults.h"

namespace ridge::backends::cuda {

// The destination of a copy, and an event that marks its end.
struct PinnedBuffer {
  std::byte* host = nullptr;
  cudaEvent_t done = nullptr;
};

// Keeps the pinned buffers for later copies. Must outlive the copies that it started.
class HostCopies {
 public:
  static constexpr int64_t kMostBytes = 4096;
  explicit HostCopies(IndexFaults& faults) : faults_(faults) {}
  ~HostCopies();
  HostCopies(const HostCopies&) = delete;
  // Copies at most kMostBytes. Waiting for the copy throws index faults, as a synchronization does.
  std::unique_ptr<CopyOut> start(const std::byte* from, int64_t bytes, cudaStream_t stream);

 private:
  IndexFaults& faults_;
  std::vector<PinnedBuffer> free_;
};

}  // namespace ridge::backends::cuda
