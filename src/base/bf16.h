// SPDX-License-Identifier: Apache-2.0
// Scalar conversions between float and the 16-bit float storage types. Kernels have their own
// vectorized versions.
#pragma once

#include <bit>
#include <cstdint>

namespace ridge {
inline namespace base {

inline float bf16_to_float(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

// Round to nearest even; NaN stays NaN (quiet).
inline uint16_t float_to_bf16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float value);  // round to nearest even, overflow to infinity

}  // namespace base
}  // namespace ridge
