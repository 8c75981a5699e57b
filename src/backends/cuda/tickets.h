// SPDX-License-Identifier: Apache-2.0
// Words of the GPU's memory by which the blocks of a launch count themselves
// (kernels/last_blocks.cuh): zero between launches, and a launch's own, since launches may run side
// by side.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cuda/device_memory.h"
#include "backends/cuda/kernels/rms_norm.h"

namespace ridge::backends::cuda {

class Tickets {
 public:
  // kTicketWords zeros.
  int32_t* take() {
    if (used_ == kWords) {
      blocks_.push_back(
          std::make_unique<DeviceMemory>(kWords * int64_t{sizeof(int32_t)}, "block counters"));
      used_ = 0;
    }
    auto* words = reinterpret_cast<int32_t*>(blocks_.back()->data()) + used_;
    used_ += kTicketWords;
    return words;
  }

 private:
  static constexpr int kWords = 1024 * kTicketWords;
  std::vector<std::unique_ptr<DeviceMemory>> blocks_;
  int used_ = kWords;  // of the last block
};

}  // namespace ridge::backends::cuda
