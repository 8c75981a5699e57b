// SPDX-License-Identifier: Apache-2.0
// Products with weights that stay as a file stores them (quantized blocks, bf16, f16): a matmul
// with one of them, and matmul_group. Products of two plain operands are in matmul.cc.
#pragma once

#include <cstdint>
#include <string>

#include "backends/backend.h"

namespace ridge::backends::cpu {

// Whether the second operand of a matmul is such a weight.
bool has_stored_weight(const Call& call);
// Whether a matmul or matmul_group asks for one order of sums, whatever the number of tokens.
bool is_batch_invariant(const Call& call);
// Empty, or the part of the matmul's form that is not supported. Supported: x[N,in] and W[out,in]
// give y[N,out].
std::string unsupported_stored(const Call& matmul);
// The bytes by which the kernels decide whether threads share the work of a matmul or matmul_group.
int64_t stored_shared_bytes(const Call& call);
// The activations are fp32.
Launch bind_stored(const BindCall& matmul);

}  // namespace ridge::backends::cpu
