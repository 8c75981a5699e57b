// SPDX-License-Identifier: Apache-2.0
// The instruction set that kernels use: what the machine has, or less when forced for tests.
#pragma once

#include <string>
#include <string_view>

namespace ridge::backends::cpu {

// "" keeps the machine's best; else "avx2", "avx512" or "amx" as
// the highest allowed. Throws a usage Error for other names and for
// what the machine lacks. Must come before the first kernel runs.
void set_isa(std::string_view isa);

// The instruction set in force, for reports: "avx512_bf16" for instance.
std::string isa_name();

// The processor's model name, as the system tells it.
std::string cpu_model();

// Whether there are instructions that multiply bf16 operands here (AVX-512 BF16 or AMX).
bool has_bf16_products();

// Whether there are tiles of bf16 (AMX).
bool has_bf16_tiles();

}  // namespace ridge::backends::cpu
