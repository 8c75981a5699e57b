// SPDX-License-Identifier: Apache-2.0
// Writes the keys and values of a run's tokens to a KV cache in device memory, on CUDA.
// backends/kernels/kv_cache.h describes the layout.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/kernels/kv_cache.h"

namespace ridge::backends::cuda {

// A token whose position, slot or block is out of range counts as padding. One launch.
template <typename T, typename C = T>
cudaError_t launch_kv_append(const KvAppend<T, C>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
