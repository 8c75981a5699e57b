// SPDX-License-Identifier: Apache-2.0
// Single elements of float, uint16_t (bf16) or Float16 as floats, and back. For loops over elements
// that vectors do not reach.
#pragma once

#include <cstdint>

#include "base/bf16.h"
#include "base/float16.h"

namespace ridge::backends::cpu {

inline float widened(float value) { return value; }
inline float widened(uint16_t bits) { return bf16_to_float(bits); }
inline float widened(Float16 half) { return f16_to_float(half.bits); }

// Rounds to nearest even.
inline void narrow_to(float value, float& to) { to = value; }
inline void narrow_to(float value, uint16_t& to) { to = float_to_bf16(value); }
inline void narrow_to(float value, Float16& to) { to.bits = float_to_f16(value); }

}  // namespace ridge::backends::cpu
