// SPDX-License-Identifier: Apache-2.0
// Conversions of IEEE half precision by bit manipulation, because not every compiler that builds
// Ridge has a 16-bit float type on every machine.
#include "base/bf16.h"

namespace ridge {
inline namespace base {
namespace {

// Half has 10 mantissa bits and an exponent bias of 15; float has 23 and 127.
constexpr int kShift = 13;
constexpr uint32_t kBias = (127 - 15) << 23;
constexpr uint32_t kFloatInfinity = 0x7f800000, kHalfInfinity = 0x7c00, kHalfQuiet = 0x0200;
constexpr uint32_t kHalfSmallestNormal = 0x0400;
constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14, below which halves have steps of 2^-24
constexpr uint32_t kOverflow =
    0x477ff000;  // 65520, midway between the largest half and the next step

}  // namespace

float f16_to_float(uint16_t bits) {
  uint32_t sign = static_cast<uint32_t>(bits & 0x8000) << 16;
  uint32_t magnitude = bits & 0x7fff;
  if (magnitude > kHalfInfinity) magnitude |= kHalfQuiet;
  if (magnitude >= kHalfInfinity)
    return std::bit_cast<float>(sign | kFloatInfinity | (magnitude << kShift));
  if (magnitude >= kHalfSmallestNormal)
    return std::bit_cast<float>(sign | ((magnitude << kShift) + kBias));
  return std::bit_cast<float>(sign |
                              std::bit_cast<uint32_t>(static_cast<float>(magnitude) * 0x1p-24f));
}

uint16_t float_to_f16(float value) {
  uint32_t bits = std::bit_cast<uint32_t>(value);
  uint32_t sign = (bits >> 16) & 0x8000;
  uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half;
  if (magnitude > kFloatInfinity) {
    half = kHalfInfinity | kHalfQuiet | ((magnitude >> kShift) & 0x03ff);
  } else if (magnitude >= kOverflow) {
    half = kHalfInfinity;
  } else if (magnitude < kSmallestNormal) {
    // Floats in [0.5, 1) are also spaced 2^-24 apart, so the addition rounds to the step of
    // subnormal halves.
    half = std::bit_cast<uint32_t>(std::bit_cast<float>(magnitude) + 0.5f) -
           std::bit_cast<uint32_t>(0.5f);
  } else {
    half = (magnitude + ((1u << (kShift - 1)) - 1) + ((magnitude >> kShift) & 1) - kBias) >> kShift;
  }
  return static_cast<uint16_t>(sign | half);
}

}  // namespace base
}  // namespace ridge
