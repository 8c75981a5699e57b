// SPDX-License-Identifier: Apache-2.0
// The kernels of the CPU backend, and the bindings that only the CPU backend has.
#pragma once

#include <vector>

#include "backends/collectives/communicator.h"
#include "backends/kernel.h"

namespace ridge::backends::cpu {

class GemmTuner;

// The tuner measures products and must outlive the kernels; null: nothing is measured. The groups
// of ranks too; null: this process runs alone.
std::vector<Kernel> cpu_kernels(GemmTuner* tuner, const Groups* groups = nullptr);

Kernel pointwise_kernel();  // for all primitives
Kernel generated_pointwise_kernel();
Launch add_in_place(const Operand& term, const Operand& total);
std::vector<Kernel> collective_kernels(const Groups* groups);
Kernel matmul_kernel(GemmTuner* tuner);
// Whether that kernel is the GEMV path of quantized GEMMs, whose parts a team of threads takes.
bool streams_weight(const BindCall& matmul);
Kernel quantized_matmul_kernel();
Kernel flash_attention_kernel();
Kernel flash_attention_backward_kernel();
Kernel cached_attention_kernel();
// Adds support for tables as files store them (quantized blocks, f16) to an embedding.
Kernel with_quantized_tables(Kernel embedding);

}  // namespace ridge::backends::cpu
