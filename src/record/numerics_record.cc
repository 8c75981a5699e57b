// SPDX-License-Identifier: Apache-2.0
// Counts numbers by their magnitudes.
#include "record/numerics_record.h"

#include <algorithm>
#include <cmath>

namespace ridge::record {
namespace {

// Numbers up to half of the smallest one round to 0: 2^-24 in fp16 and 2^-133 in bf16. Those from
// the middle between the largest one and the next step on round to infinity.
constexpr float kF16Vanishes = 0x1p-25f, kF16Overflows = 65520.0f;
constexpr float kBf16Vanishes = 0x1p-134f, kBf16Overflows = 0x1.ffp127f;

float smallest_normal(DType type) { return type == DType::kF16 ? 0x1p-14f : 0x1p-126f; }

}  // namespace

void NumberRange::add(std::span<const float> values, DType type) {
  const float normal = smallest_normal(type);
  for (const float value : values) {
    const float magnitude = std::abs(value);
    ++count;
    if (!std::isfinite(value)) {
      ++not_finite;
      continue;
    }
    if (magnitude == 0) {
      ++zeros;
      continue;
    }
    const auto wide = static_cast<double>(magnitude);
    least = least == 0 ? wide : std::min(least, wide);
    greatest = std::max(greatest, wide);
    squares += wide * wide;
    subnormals += magnitude < normal;
    f16_underflows += magnitude <= kF16Vanishes;
    f16_overflows += magnitude >= kF16Overflows;
    bf16_underflows += magnitude <= kBf16Vanishes;
    bf16_overflows += magnitude >= kBf16Overflows;
  }
}

double NumberRange::rms() const {
  const int64_t finite = count - not_finite;
  return finite == 0 ? 0 : std::sqrt(squares / static_cast<double>(finite));
}

double NumberRange::share(int64_t part) const {
  return count == 0 ? 0 : static_cast<double>(part) / static_cast<double>(count);
}

}  // namespace ridge::record
