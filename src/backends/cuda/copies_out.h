// SPDX-License-Identifier: Apache-2.0
// Small copies to the host that are under way while
// the host goes on. Not the copies that it waits for.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/backend.h"
#include "backends/cuda/index_faults.h"

namespace ridge::backends::cuda {

// Where a copy lands: pinned memory, and an event that says when.
struct Landing {
  std::byte* host = nullptr;
  cudaEvent_t done = nullptr;
};

// Keeps landings for the next copies. It outlives the copies that it started.
class CopiesOut {
 public:
  static constexpr int64_t kMostBytes = 4096;
  explicit CopiesOut(IndexFaults& faults) : faults_(faults) {}
  ~CopiesOut();
  CopiesOut(const CopiesOut&) = delete;
  // At most kMostBytes. Whoever waits for the copy hears of faults, as after a synchronization.
  std::unique_ptr<CopyOut> start(const std::byte* from, int64_t bytes, cudaStream_t stream);

 private:
  IndexFaults& faults_;
  std::vector<Landing> free_;
};

}  // namespace ridge::backends::cuda
