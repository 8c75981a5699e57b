// SPDX-License-Identifier: Apache-2.0
// Products with weights that stay as a file stores them (quantized blocks, bf16, f16), fp32 activations. Products of two
// plain operands are matmul.cc.
#pragma once

#include <string>

#include "backends/backend.h"

namespace ridge::backends::cpu {

// Whether the second operand of a matmul is such a weight.
bool has_stored_weight(const Call& call);
// Empty, or what of the call's form is not taken: x[N,in] and W[out,in] give y[N,out].
std::string unsupported_stored(const Call& call);
int64_t stored_workspace_bytes(const Call& call);
Launch bind_stored(const BindCall& call);

}  // namespace ridge::backends::cpu
