// SPDX-License-Identifier: Apache-2.0
// Binding of copies between operands of any layout; several ops are made of them.
#pragma once

#include "backends/cuda/bind_context.h"

namespace ridge::backends::cuda {

// to = from, or to += from (f32 to f32 or bf16 to f32). Both have one shape; types may be f32 and
// bf16, or the same of any 2 or 4 bytes.
Launch bind_copy(const Operand& from,
                 const Operand& to,
                 bool accumulate,
                 const char* op,
                 Device& device);

}  // namespace ridge::backends::cuda
