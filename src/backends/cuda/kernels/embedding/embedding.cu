// SPDX-License-Identifier: Apache-2.0
// Embedding: gathers rows. Its gradient is in embedding_backward.cu.
#include "backends/cuda/kernels/embedding/embedding.h"

#include "backends/cuda/kernels/index_check.cuh"
#include "backends/cuda/kernels/map_rows.cuh"

namespace ridge::backends::cuda {
namespace {

// Bound: memory, N D (sizeof(Table) + sizeof(T)), less for repeated tokens, whose rows are in L2.
template <typename Table, typename T, int kCount>
struct GatherBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {
    Packed<Table, kCount> x;
    int32_t id;
  };
  Watched<Embedding<Table, T>> p;

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    const int32_t id = p.ids[at.row];
    if (at.column == 0) note_bad_row(id, p.vocabulary, at.row, p.bad_row);
    item.id = checked_index(id, p.vocabulary);
    if (item.id >= 0) item.x = load_packed<kCount>(p.table[item.id] + at.column);
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace at) const {
    float v[kCount] = {};
    if (item.id >= 0) unpack(item.x, v);
    store_floats(p.y[at.row] + at.column, v);
  }
};

}  // namespace

template <typename Table, typename T>
cudaError_t launch_embedding(const Watched<Embedding<Table, T>>& call, cudaStream_t stream) {
  constexpr int kCount = kVectorOf<T>;  // adjacent 16-byte stores
  const bool vectors = call.width % kCount == 0 && takes_vectors<kCount>(call.table) &&
                       takes_vectors<kCount>(call.y);
  if (vectors) {
    return launch_map_rows(GatherBody<Table, T, kCount>{call}, call.tokens, call.width, stream);
  }
  return launch_map_rows(GatherBody<Table, T, 1>{call}, call.tokens, call.width, stream);
}

template cudaError_t launch_embedding(const Watched<Embedding<float, float>>&, cudaStream_t);
template cudaError_t launch_embedding(const Watched<Embedding<float, uint16_t>>&, cudaStream_t);
template cudaError_t launch_embedding(const Watched<Embedding<uint16_t, float>>&, cudaStream_t);
template cudaError_t launch_embedding(const Watched<Embedding<uint16_t, uint16_t>>&, cudaStream_t);

}  // namespace ridge::backends::cuda
