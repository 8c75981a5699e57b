// SPDX-License-Identifier: Apache-2.0
// Copies between strided layouts on CUDA (described in backends/kernels/copy.h).
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/copy.h"

namespace ridge::backends::cuda {

// Fast if the innermost target dimension is contiguous and the source is contiguous along that
// dimension or another one (runs, transpositions), or repeats one element along it. Any other
// layout gives correct results but moves single elements. Returns cudaErrorInvalidValue for a rank
// out of range or a negative extent or stride. One launch; none for no elements.
template <typename From, typename To>
cudaError_t launch_copy(const Copy<From, To>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
