// SPDX-License-Identifier: Apache-2.0
// Copies between strided layouts on CUDA, as backends/kernels/copy.h describes them.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/copy.h"

namespace ridge::backends::cuda {

// Fast where the innermost target dimension is contiguous and the source has that dimension, or
// another, contiguous (runs, transpositions), or repeats one element along it. Any other layout is
// right but moves single elements. cudaErrorInvalidValue for a rank out of range or a negative
// extent or stride. One launch; none for no elements.
template <typename From, typename To>
cudaError_t launch_copy(const Copy<From, To>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
