// SPDX-License-Identifier: Apache-2.0
// The CUDA kernel of ladder_gemm, in a program that has CUDA.
#pragma once

#include "backends/cuda/bind_context.h"

namespace ridge::courses {

backends::Kernel ladder_gemm_kernel(backends::cuda::BindContext& context);

}  // namespace ridge::courses
