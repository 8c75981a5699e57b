// SPDX-License-Identifier: Apache-2.0
// Draws the numbers one by one and rounds them if the type is bf16.
#include "backends/random_block.h"

#include <cstring>

#include "base/bf16.h"
#include "base/error.h"
#include "base/random.h"

namespace ridge::backends {

std::vector<std::byte> random_block(DType dtype, int64_t bytes, uint32_t seed) {
  RIDGE_CHECK(dtype == DType::kF32 || dtype == DType::kBF16,
              "random numbers of fp32 or bf16 alone");
  const size_t width = dtype == DType::kF32 ? sizeof(float) : sizeof(uint16_t);
  std::vector<std::byte> block(static_cast<size_t>(bytes));
  Random random(seed);
  for (size_t at = 0; at + width <= block.size(); at += width) {
    const float value = random.uniform() - 0.5f;
    const uint16_t narrow = float_to_bf16(value);
    std::memcpy(&block[at], dtype == DType::kF32 ? static_cast<const void*>(&value) : &narrow,
                width);
  }
  return block;
}

}  // namespace ridge::backends
