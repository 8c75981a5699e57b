// SPDX-License-Identifier: Apache-2.0
// Gradient of embedding without atomics on the table: each block owns rows of the table, finds
// their tokens in order and adds them.
#include <algorithm>

#include "backends/cuda/kernels/embedding/embedding.h"
#include "backends/cuda/kernels/vector_io.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kOwnedRows = 8;  // rows of the table per block
// Token k of a block's list goes to adder k % 4: more loads in flight for ids that many tokens
// share.
constexpr int kAdders = 4;
constexpr int kAdderThreads = kThreads / kAdders;
// Tokens scanned before the block computes where its matches go.
constexpr int kScanned = 2048;
constexpr int kListed = 2048;  // matches kept from one tile of columns to the next

// The block's tokens in order: those whose id is one of its rows.
struct TokenList {
  int32_t token[kListed];
  uint8_t row[kListed];
  unsigned touched;  // one bit for each row that has a token
};

// Appends the matches among tokens [first, first + kScanned) at `size` and returns the new size to
// every thread. Writes nothing if the list would exceed kListed. The block must synchronize before
// the list is read or written again.
template <typename T>
__device__ __forceinline__ int scan_tokens(const EmbeddingBackward<T>& p,
                                           int64_t first_owned,
                                           int64_t first,
                                           int size,
                                           TokenList& list,
                                           int* warp_counts) {
  constexpr int kEach = kScanned / kThreads;
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  const int warp = static_cast<int>(threadIdx.x) / kLanes;
  const int64_t begin = first + static_cast<int64_t>(threadIdx.x) * kEach;
  int64_t row[kEach];
  int count = 0;
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    row[k] = begin + k < p.tokens ? p.ids[begin + k] - first_owned : -1;
    if (row[k] >= kOwnedRows || row[k] + first_owned < 0) row[k] = -1;
    count += row[k] >= 0 ? 1 : 0;
  }
  int before = count;  // after the loop: matches of this warp up to this thread
#pragma unroll
  for (int step = 1; step < kLanes; step *= 2) {
    const int other = shuffle_up(before, step);
    before += lane >= step ? other : 0;
  }
  if (lane == kLanes - 1) warp_counts[warp] = before;
  __syncthreads();
  int at = size + before - count;
  int total = size;
  for (int w = 0; w < kThreads / kLanes; ++w) {
    at += w < warp ? warp_counts[w] : 0;
    total += warp_counts[w];
  }
  if (total <= kListed) {
#pragma unroll
    for (int k = 0; k < kEach; ++k) {
      if (row[k] < 0) continue;
      list.token[at] = static_cast<int32_t>(begin + k);
      list.row[at++] = static_cast<uint8_t>(row[k]);
      atomicOr(&list.touched, 1u << row[k]);
    }
  }
  __syncthreads();
  return total;
}

// Adds the listed tokens' columns [column, column + kCount) to this adder's sums.
template <typename T, int kCount>
__device__ __forceinline__ void add_tokens(const EmbeddingBackward<T>& p,
                                           const TokenList& list,
                                           int size,
                                           int64_t column,
                                           float (*sums)[kAdderThreads * kCount]) {
  constexpr int kInFlight = 8;
  const int adder = static_cast<int>(threadIdx.x) / kAdderThreads;
  const int place = static_cast<int>(threadIdx.x) % kAdderThreads * kCount;
  if (column >= p.width) return;
  for (int first = adder; first < size; first += kInFlight * kAdders) {
    Packed<T, kCount> dy[kInFlight];
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int entry = first + k * kAdders;
      if (entry < size) dy[k] = load_packed<kCount>(p.dy[list.token[entry]] + column);
    }
#pragma unroll
    for (int k = 0; k < kInFlight; ++k) {
      const int entry = first + k * kAdders;
      if (entry >= size) break;
      float* sum = sums[list.row[entry]] + place;
      float given[kCount];
      unpack(dy[k], given);
#pragma unroll
      for (int i = 0; i < kCount; ++i) sum[i] += given[i];
    }
  }
}

// Mapping: a block owns 8 rows of the table and every gridDim.y-th tile of 64 kCount columns. It
// scans all ids once (again for each tile if more than 2048 tokens are its own). Then each of four
// groups of threads adds every fourth of the tokens in shared memory, and the four sums are added
// in order. Bound: memory, V D 4 written unless accumulating, plus N D sizeof(T) read; and N / 2 V
// bytes of ids from L2 for each tile column.
template <typename T, int kCount>
__global__ void __launch_bounds__(kThreads)
    embedding_backward_kernel(const __grid_constant__ EmbeddingBackward<T> p) {
  constexpr int kTile = kAdderThreads * kCount;
  __shared__ __align__(16) float sums[kAdders][kOwnedRows][kTile];
  __shared__ TokenList list;
  __shared__ int warp_counts[kThreads / kLanes];
  const int64_t first_owned = static_cast<int64_t>(blockIdx.x) * kOwnedRows;
  const int adder = static_cast<int>(threadIdx.x) / kAdderThreads;
  const int place = static_cast<int>(threadIdx.x) % kAdderThreads * kCount;

  if (threadIdx.x == 0) list.touched = 0;
  __syncthreads();
  int size = 0;
  for (int64_t first = 0; first < p.tokens && size <= kListed; first += kScanned)
    size = scan_tokens(p, first_owned, first, size, list, warp_counts);
  const bool listed = size <= kListed;
  // Rows without a token are set to zero, or left unchanged if the gradient accumulates.
  const unsigned touched = listed ? list.touched : ~0u;
  for (int64_t tile = static_cast<int64_t>(blockIdx.y) * kTile; tile < p.width;
       tile += static_cast<int64_t>(gridDim.y) * kTile) {
    for (int r = 0; r < kOwnedRows; ++r) {
      if ((touched >> r & 1) == 0) continue;
      const float nothing[kCount] = {};
      store_floats(&sums[adder][r][place], nothing);
    }
    if (listed) {
      add_tokens<T, kCount>(p, list, size, tile + place, sums[adder]);
    } else {
      for (int64_t first = 0; first < p.tokens; first += kScanned) {
        const int found = scan_tokens(p, first_owned, first, 0, list, warp_counts);
        add_tokens<T, kCount>(p, list, found, tile + place, sums[adder]);
        __syncthreads();
      }
    }
    __syncthreads();
    // For the output, each group of threads takes rows instead of tokens.
    for (int r = adder; r < kOwnedRows; r += kAdders) {
      if (first_owned + r >= p.vocabulary || tile + place >= p.width) continue;
      float* out = p.d_table[first_owned + r] + tile + place;
      const bool has_tokens = (touched >> r & 1) != 0;
      if (p.accumulate && !has_tokens) continue;
      float v[kCount] = {};
      for (int a = 0; a < (has_tokens ? kAdders : 0); ++a) {
        float more[kCount];
        load_floats(&sums[a][r][place], more);
#pragma unroll
        for (int i = 0; i < kCount; ++i) v[i] += more[i];
      }
      if (p.accumulate) {
        float old[kCount];
        load_floats(out, old);
#pragma unroll
        for (int i = 0; i < kCount; ++i) v[i] += old[i];
      }
      store_floats(out, v);
    }
    __syncthreads();
  }
}

template <int kCount, typename T>
cudaError_t launch(const EmbeddingBackward<T>& call, cudaStream_t stream) {
  constexpr int64_t kTile = kAdderThreads * kCount;
  const int64_t tiles = (call.width + kTile - 1) / kTile;
  // Splits the columns among blocks as long as each block writes at least twice what it scans.
  const int64_t shares = kOwnedRows * call.width / (2 * std::max<int64_t>(call.tokens, 1));
  const dim3 grid(
      static_cast<unsigned>((call.vocabulary + kOwnedRows - 1) / kOwnedRows),
      static_cast<unsigned>(std::clamp<int64_t>(shares, 1, std::min<int64_t>(tiles, 65535))));
  embedding_backward_kernel<T, kCount><<<grid, kThreads, 0, stream>>>(call);
  return cudaGetLastError();
}

}  // namespace

template <typename T>
cudaError_t launch_embedding_backward(const EmbeddingBackward<T>& call, cudaStream_t stream) {
  constexpr int64_t kLimit = int64_t{1} << 31;
  if (call.tokens < 0 || call.width < 0 || call.vocabulary < 0 || call.tokens >= kLimit ||
      call.vocabulary >= kLimit)
    return cudaErrorInvalidValue;
  if (call.width == 0 || call.vocabulary == 0 || (call.accumulate && call.tokens == 0))
    return cudaSuccess;
  const bool vectors =
      call.width % 4 == 0 && takes_vectors<4>(call.dy) && takes_vectors<4>(call.d_table);
  return vectors ? launch<4>(call, stream) : launch<1>(call, stream);
}

template cudaError_t launch_embedding_backward(const EmbeddingBackward<float>&, cudaStream_t);
template cudaError_t launch_embedding_backward(const EmbeddingBackward<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
