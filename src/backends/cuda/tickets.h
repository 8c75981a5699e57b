// SPDX-License-Identifier: Apache-2.0
// GPU memory words with which the blocks of a launch count themselves (kernels/last_blocks.cuh).
// They are zero between launches. Each launch has its own, because launches may run concurrently.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cuda/device_memory.h"
#include "backends/cuda/kernels/ticketed.h"

namespace ridge::backends::cuda {

class Tickets {
 public:
  // Returns words that are 0. Kernels that use kernels/last_blocks.cuh need kTicketWords of them.
  int32_t* take(int64_t words = kTicketWords) {
    if (used_ + words > kWords) {
      blocks_.push_back(std::make_unique<DeviceMemory>(
          std::max(words, kWords) * int64_t{sizeof(int32_t)}, "block counters"));
      used_ = 0;
    }
    auto* taken = reinterpret_cast<int32_t*>(blocks_.back()->data()) + used_;
    used_ += words;
    return taken;
  }

 private:
  static constexpr int64_t kWords = 1024 * kTicketWords;
  std::vector<std::unique_ptr<DeviceMemory>> blocks_;
  int64_t used_ = kWords;  // words used in the last block
};

}  // namespace ridge::backends::cuda
