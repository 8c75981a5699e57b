// SPDX-License-Identifier: Apache-2.0
// IEEE half precision through GCC's _Float16, which rounds to nearest even.
#include "base/bf16.h"

namespace ridge {
inline namespace base {

float f16_to_float(uint16_t bits) { return static_cast<float>(std::bit_cast<_Float16>(bits)); }
uint16_t float_to_f16(float value) { return std::bit_cast<uint16_t>(static_cast<_Float16>(value)); }

}  // namespace base
}  // namespace ridge
