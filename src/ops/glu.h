// SPDX-License-Identifier: Apache-2.0
// The activation of a GLU, for the ops that compute one: glu, quantized_matmul and skinny_gemm.
#pragma once

#include <cstdint>
#include <string>

#include "base/pointwise.h"
#include "graph/op.h"

namespace ridge::ops {

// Throws a usage Error for other names than silu and gelu_tanh.
Pointwise glu_activation(const char* op, const std::string& name);

// The activation's FLOPs and transcendentals, and one product, of each result.
Work glu_work(Pointwise activation, int64_t results);

}  // namespace ridge::ops
