// SPDX-License-Identifier: Apache-2.0
// The instruction set that kernels use: the machine's best, or a lower one when forced for tests.
#pragma once

#include <string>
#include <string_view>

#include "backends/cpu/kernels/quantized/choose.h"

namespace ridge::backends::cpu {

// "" keeps the machine's best; "avx2", "avx512" or "amx" sets the highest allowed. Throws a usage
// Error for other names and for instructions that the machine lacks. Must be called before the
// first kernel runs.
void set_isa(std::string_view isa);

// The instruction set in use, for reports: "avx512_bf16" for instance.
std::string isa_name();

// The processor's model name, as /proc/cpuinfo reports it.
std::string cpu_model();

// The library of GEMMs with its version: "oneDNN 2.6.3".
std::string gemm_library();

// Whether this machine has instructions that multiply bf16 operands (AVX-512 BF16 or AMX).
bool has_bf16_products();

// Whether this machine multiplies tiles of bf16 (AMX).
bool has_bf16_tiles();

// The instruction set in use, as the table of quantized GEMMs distinguishes them.
QuantizedIsa quantized_isa();

}  // namespace ridge::backends::cpu
