// SPDX-License-Identifier: Apache-2.0
// Embedding and its gradient on CUDA. backends/kernels/embedding.h has the definitions.
#pragma once

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/watched.h"
#include "backends/kernels/embedding.h"

namespace ridge::backends::cuda {

// Ids are checked per token. One launch.
template <typename Table, typename T>
cudaError_t launch_embedding(const Watched<Embedding<Table, T>>& call, cudaStream_t stream);

// The order of summation depends only on the extents. An id outside [0, V) counts as padding. One
// launch, no workspace.
template <typename T>
cudaError_t launch_embedding_backward(const EmbeddingBackward<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
