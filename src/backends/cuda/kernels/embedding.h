// SPDX-License-Identifier: Apache-2.0
// Looks rows of a table up by id, and adds gradients of the rows back, on CUDA. T and the table's
// type are float or uint16_t (bf16).
#pragma once

#include <cstdint>

#include "backends/cuda/kernels/gpu_runtime.h"
#include "backends/cuda/kernels/rows.h"

namespace ridge::backends::cuda {

template <typename Table, typename T>
struct Embedding {
  int64_t tokens = 0;            // N
  int64_t width = 0;             // D
  int64_t vocabulary = 0;        // V
  Rows<const Table> table;       // [V, D]
  const int32_t* ids = nullptr;  // [N]; -1, and any outside [0, V), gives zeros
  float scale = 1.0f;            // Gemma: sqrt(D)
  Rows<T> y;                     // [N, D]
  int32_t* bad_row = nullptr;  // one, or null (rows.h): the first token with an id outside [-1, V)
};

// y[n] = scale table[ids[n]]. One launch.
template <typename Table, typename T>
cudaError_t launch_embedding(const Embedding<Table, T>& call, cudaStream_t stream);

template <typename T>
struct EmbeddingBackward {
  int64_t tokens = 0;            // N
  int64_t width = 0;             // D
  int64_t vocabulary = 0;        // V
  const int32_t* ids = nullptr;  // [N]
  Rows<const T> dy;              // [N, D]
  float scale = 1.0f;
  bool accumulate = false;  // add to d_table instead of overwriting all of it
  Rows<float> d_table;      // [V, D]
};

// d_table[v] (+)= scale sum of dy[n] over the tokens with id v, in an order that the extents fix.
// One launch, no workspace.
template <typename T>
cudaError_t launch_embedding_backward(const EmbeddingBackward<T>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
