// SPDX-License-Identifier: Apache-2.0
// The kernels of the CUDA backend, and the bindings that only the CUDA backend has.
#pragma once

#include <vector>

#include "backends/cuda/bind_context.h"

namespace ridge::backends::cuda {

// The context must outlive the kernels and their launches.
std::vector<Kernel> cuda_kernels(BindContext& context);
// Kernels of ops that the program added; it adds them at its start.
std::vector<Kernel (*)(BindContext&)>& added_kernels();

std::vector<Kernel> collective_kernels(BindContext& context);
Kernel pointwise_kernel(BindContext& context);  // for all primitives
Kernel generated_pointwise_kernel(BindContext& context);
Kernel matmul_kernel(BindContext& context);
Kernel quantized_matmul_kernel(BindContext& context);
// The kernel of embedding, with tables in fragment tiles too.
Kernel with_fragment_tables(Kernel embedding, BindContext& context);
Kernel skinny_gemm_kernel(BindContext& context);
Kernel transpose_multi_kernel(BindContext& context);
Kernel flash_attention_kernel(BindContext& context);
Kernel flash_attention_backward_kernel(BindContext& context);
Kernel cached_attention_kernel(BindContext& context);
Kernel rope_append_kernel(BindContext& context);
Kernel append_attention_kernel(BindContext& context);
Kernel all_reduce_add_rms_norm_kernel(BindContext& context);

}  // namespace ridge::backends::cuda
