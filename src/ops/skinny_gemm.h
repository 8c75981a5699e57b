// SPDX-License-Identifier: Apache-2.0
// The operands of a skinny_gemm, for its shape rule and for the bindings of its kernels.
#pragma once

#include "graph/op.h"

namespace ridge::ops {

struct SkinnyGemm {
  int64_t tokens = 0, in = 0;
  int64_t out = 0;  // columns of y: half the weight's rows if there is an activation
  // Indexes of inputs; -1 if absent.
  int norm = -1, delta = -1, delta_norm = -1, residual = -1;
  Type y;
};

// Throws usage Errors.
SkinnyGemm skinny_gemm_shape(const Call& call);

}  // namespace ridge::ops
