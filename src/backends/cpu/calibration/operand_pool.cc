// SPDX-License-Identifier: Apache-2.0
// Fills the operands of probes with random numbers.
#include <algorithm>
#include <cstring>

#include "backends/cpu/calibration/probe_parts.h"
#include "backends/random_block.h"

namespace ridge::backends::cpu {

OperandPool::OperandPool(DType dtype, int64_t bytes)
    : inputs_(bytes, "random operands"), results_(bytes, "results") {
  // Drawing all numbers would take seconds. A repeated block works as well, if its size differs
  // from that of any cache.
  constexpr int64_t kDrawn = 1'000'003;
  int64_t width = storage_bytes(dtype, 1), elements = bytes / width;
  const std::vector<std::byte> drawn = random_block(dtype, kDrawn * width, 1);
#pragma omp parallel for
  for (int64_t begin = 0; begin < elements; begin += kDrawn) {
    size_t count = static_cast<size_t>(std::min(kDrawn, elements - begin) * width);
    std::memcpy(inputs_.data() + begin * width, drawn.data(), count);
    std::memcpy(results_.data() + begin * width, drawn.data(), count);
  }
}

}  // namespace ridge::backends::cpu
