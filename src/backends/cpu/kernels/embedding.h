// SPDX-License-Identifier: Apache-2.0
// Embedding and its gradient on CPUs; backends/kernels/embedding.h defines them.
#pragma once

#include "backends/cpu/kernels/index_check.h"
#include "backends/kernels/embedding.h"

namespace ridge::backends::cpu {

// Returns kNoBadRow, or the first token whose id is outside [-1, V); in that case nothing is
// written.
template <typename Table, typename T>
int64_t embedding(const Embedding<Table, T>& call);

// Sums in token order, so the bits are the same for any thread count. Returns the same as
// embedding.
template <typename T>
int64_t embedding_backward(const EmbeddingBackward<T>& call);

}  // namespace ridge::backends::cpu
