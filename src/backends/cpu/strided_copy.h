// SPDX-License-Identifier: Apache-2.0
// A copy between two operands in any layouts, bound once. Used by copy, concat, cast and widened
// products. The operands must not overlap.
#pragma once

#include "backends/backend.h"

namespace ridge::backends::cpu {

// Both operands have the same shape. Converts between f32, bf16 and f16; if the types are equal,
// bits are moved (i32 too).
Launch strided_copy(const Operand& from, const Operand& to);

}  // namespace ridge::backends::cpu
