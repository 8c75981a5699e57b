// SPDX-License-Identifier: Apache-2.0
// Dequantizes fragment tiles: whole matrices to bf16, and rows of an embedding table.
#include <algorithm>

#include "backends/cuda/kernels/gemm/fragment_tile.cuh"
#include "backends/cuda/kernels/index_check.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace fragments;

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / 32;

// Mapping: a warp per tile. Bound: memory, or the L2 cache if the result fits into it.
template <class Lane>
__global__ void __launch_bounds__(kThreads)
    unpack_fragments_kernel(const __grid_constant__ UnpackedFragments p) {
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const int64_t across = p.in / kColumns, tiles = p.rows / kFragmentRows * across;
  for (int64_t i = int64_t{blockIdx.x} * kWarps + threadIdx.x / 32; i < tiles;
       i += int64_t{gridDim.x} * kWarps) {
    Lane row;
    row.load(p.weight + i * static_cast<int64_t>(sizeof(typename Lane::Tile)), lane);
    const int64_t first = i / across * kFragmentRows + lane / 4;
    store_values(row, lane % 4, p.to + first * p.in + i % across * kColumns);
  }
}

// Mapping: a block per token, four threads per tile of its row. Bound: latency.
template <class Lane, typename T>
__global__ void __launch_bounds__(kThreads)
    fragment_embedding_kernel(const __grid_constant__ Watched<FragmentEmbedding<T>> p) {
  const int64_t token = blockIdx.x;
  const int32_t asked = p.ids[token];
  if (threadIdx.x == 0) note_bad_row(asked, p.vocabulary, token, p.bad_row);
  const int32_t id = checked_index(asked, p.vocabulary);
  const int64_t across = p.width / kColumns;
  for (int64_t i = threadIdx.x; i < across * 4; i += kThreads) {
    const int t = static_cast<int>(i % 4);
    T* to = p.y[token] + i / 4 * kColumns;
    if (id < 0) {
      for (int column = t; column < kColumns; column += 4) to[column] = T{0};
      continue;
    }
    Lane row;
    row.load(p.table + (id / kFragmentRows * across + i / 4) *
                           static_cast<int64_t>(sizeof(typename Lane::Tile)),
             static_cast<int>(id % kFragmentRows) * 4 + t);
    store_values(row, t, to);
  }
}

}  // namespace

cudaError_t launch_unpack_fragments(const UnpackedFragments& call, cudaStream_t stream) {
  const int64_t tiles = call.rows / kFragmentRows * (call.in / kFragmentColumns);
  if (call.rows % kFragmentRows != 0 || call.in % kFragmentColumns != 0)
    return cudaErrorInvalidValue;
  if (tiles == 0) return cudaSuccess;
  constexpr int64_t kMostBlocks = 65535;
  const auto blocks = static_cast<unsigned>(std::min((tiles + kWarps - 1) / kWarps, kMostBlocks));
  with_lane(call.format, [&](auto lane) {
    unpack_fragments_kernel<decltype(lane)><<<blocks, kThreads, 0, stream>>>(call);
  });
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_fragment_embedding(const Watched<FragmentEmbedding<T>>& call,
                                      cudaStream_t stream) {
  if (call.tokens == 0 || call.width == 0) return cudaSuccess;
  with_lane(call.format, [&](auto lane) {
    fragment_embedding_kernel<decltype(lane), T>
        <<<static_cast<unsigned>(call.tokens), kThreads, 0, stream>>>(call);
  });
  return cudaGetLastError();
}

template cudaError_t launch_fragment_embedding(const Watched<FragmentEmbedding<float>>&,
                                               cudaStream_t);
template cudaError_t launch_fragment_embedding(const Watched<FragmentEmbedding<uint16_t>>&,
                                               cudaStream_t);

}  // namespace ridge::backends::cuda
