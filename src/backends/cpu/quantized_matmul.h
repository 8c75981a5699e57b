// SPDX-License-Identifier: Apache-2.0
// Products with quantized weights, which stay as a file stores them (blocks, bf16, f16): a matmul
// with one of them, and quantized_matmul. Products of two plain operands are in matmul.cc.
#pragma once

#include <cstdint>
#include <string>

#include "backends/backend.h"

namespace ridge::backends::cpu {

// Whether the second operand of a matmul is such a weight.
bool has_quantized_weight(const Call& call);
// Whether a matmul or quantized_matmul asks for one order of sums, whatever the number of tokens.
bool is_batch_invariant(const Call& call);
// Empty, or the part of the matmul's form that is not supported. Supported: x[N,in] and W[out,in]
// give y[N,out].
std::string unsupported_quantized(const Call& matmul);
// The bytes by which the kernels decide whether threads share the work of a matmul or
// quantized_matmul.
int64_t quantized_shared_bytes(const Call& call);
// Binds a matmul with a quantized weight and fp32 activations.
Launch bind_quantized(const BindCall& matmul);

}  // namespace ridge::backends::cpu
