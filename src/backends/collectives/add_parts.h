// SPDX-License-Identifier: Apache-2.0
// The sum of one tensor of each rank, in host memory.
#pragma once

#include <algorithm>
#include <cstring>
#include <span>

#include "backends/collectives/communicator.h"
#include "base/bf16.h"

namespace ridge::backends {

// Fills `to` with the sum, or the average, of the ranks' tensors of its size and type, in the order
// of the ranks: sums in fp32, rounded once. `to` may be one of them.
inline void add_parts(const Exchanged& to, std::span<const std::byte* const> parts, bool average) {
  const float factor = average ? 1.0F / static_cast<float>(parts.size()) : 1.0F;
  const auto add = [&]<typename T>(T, auto widen, auto narrow) {
    constexpr int64_t kBlock = 1024;  // in the first cache
    float sums[kBlock];
    T values[kBlock];
    for (int64_t begin = 0; begin < to.elements; begin += kBlock) {
      const int64_t count = std::min(kBlock, to.elements - begin),
                    at = begin * static_cast<int64_t>(sizeof(T));
      const auto bytes = static_cast<size_t>(count) * sizeof(T);
      std::fill_n(sums, count, 0.0F);
      for (const std::byte* part : parts) {
        std::memcpy(values, part + at, bytes);
        for (int64_t i = 0; i < count; ++i) sums[i] += widen(values[i]);
      }
      for (int64_t i = 0; i < count; ++i) values[i] = narrow(sums[i] * factor);
      std::memcpy(to.data + at, values, bytes);
    }
  };
  const auto same = [](float x) { return x; };
  if (to.dtype == DType::kF32) return add(float(), same, same);
  if (to.dtype == DType::kBF16) return add(uint16_t(), bf16_to_float, float_to_bf16);
  add(uint16_t(), f16_to_float, float_to_f16);
}

}  // namespace ridge::backends
