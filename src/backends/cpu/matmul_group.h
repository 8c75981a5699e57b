// SPDX-License-Identifier: Apache-2.0
// Products with weights that stay as a file stores them (quantized blocks, bf16, f16): a matmul
// with one of them, and matmul_group. Products of two plain operands are in matmul.cc.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

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
// The type to which GEMMs of this many tokens with weights in blocks round their activations, unless
// they are exact: "i16", or "i8" if `bits` is 8; with AMX "bf16" or "i8".
std::string_view rounded_activations(int64_t tokens, int bits = 16);
// Whether some 8-bit activations are multiplied faster than 16-bit ones: from AVX2 on.
bool has_byte_products();
inline constexpr int64_t kManyTokens = 1024;  // as which GEMMs count that are alike for any number
// The activations are fp32.
Launch bind_stored(const BindCall& matmul);

}  // namespace ridge::backends::cpu
