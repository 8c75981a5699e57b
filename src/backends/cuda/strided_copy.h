// SPDX-License-Identifier: Apache-2.0
// Binding of copies between operands of any layout, which several ops use.
#pragma once

#include "backends/cuda/bind_context.h"

namespace ridge::backends::cuda {

// to = from, or to += from (f32 to f32 or bf16 to f32). Both have the same shape. The types may be
// f32 and bf16, or two equal types of 2 or 4 bytes.
Launch bind_copy(const Operand& from,
                 const Operand& to,
                 bool accumulate,
                 const char* op,
                 Device& device);

}  // namespace ridge::backends::cuda
