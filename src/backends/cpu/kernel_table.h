// SPDX-License-Identifier: Apache-2.0
// The kernels of the CPU backend, and the bindings that only the CPU has.
#pragma once

#include <vector>

#include "backends/kernel.h"

namespace ridge::backends::cpu {

class GemmTuner;

// Products are measured by the tuner, which outlives the kernels; null: nothing is measured.
std::vector<Kernel> cpu_kernels(GemmTuner* tuner);

Kernel pointwise_kernel();  // of all primitives
Kernel generated_pointwise_kernel();
Launch add_in_place(const Operand& term, const Operand& total);
Kernel matmul_kernel(GemmTuner* tuner);
Kernel matmul_group_kernel();
Kernel flash_attention_kernel();
Kernel flash_attention_backward_kernel();
Kernel cached_attention_kernel();
// An embedding that reads tables as files store them, too.
Kernel with_stored_tables(Kernel embedding);

}  // namespace ridge::backends::cpu
