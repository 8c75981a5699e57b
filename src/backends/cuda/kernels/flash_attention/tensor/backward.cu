// SPDX-License-Identifier: Apache-2.0
// Flash attention backward on mma.sync in one launch. The forward pass is in forward.cu.
//
// A block keeps 64 rows of two operands, a and b, and iterates over 32 rows of two others, c and d,
// at a time:
//   key blocks:   rows are keys,    (a, b) = (K, V),  (c, d) = (Q, dO): dV += P^T d and
//                 dK += dS^T c, over all query heads of the group;
//   query blocks: rows are queries, (a, b) = (Q, dO), (c, d) = (K, V):  dQ += dS c.
// S is computed from a and c, dP from b and d in both. So the scores are computed twice, nothing is
// summed across blocks, and the blocks of both kinds fill the GPU together, which matters for short
// launches. delta, the product of each row of dO and O, is computed where dO is loaded. Bound: 14 E
// FLOPs per visited pair at the rate of mma.sync; shared memory delivers the operands at two thirds
// of that rate (each warp reads all of c and d for 16 rows).
#include "backends/cuda/kernels/flash_attention/tensor/launch.h"
#include "backends/cuda/kernels/flash_attention/tensor/tiles.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace tensor;

constexpr int kColumns = 32;  // columns per iteration
constexpr int kTiles = kColumns / 8;

struct BackwardArguments {
  AttentionInput q, k, v, o, d_o;
  AttentionOutput dq, dk, dv;
  const float* lse;  // [N, H]
  DocumentVisibility visibility;
  int batch, heads, kv_heads, head_size, blocks;
  float scale;
};

// A block's tiles and the statistics of its queries, which are its own rows or the columns that it
// iterates over.
template <typename T, int kE>
struct Shared {
  T a[kRows * Tile<T, kE>::kStride];
  T b[kRows * Tile<T, kE>::kStride];
  T c[kColumns * Tile<T, kE>::kStride];
  T d[kColumns * Tile<T, kE>::kStride];
  float lse[kRows];  // times log2(e)
  float delta[kRows];
};

template <int kCount>
__device__ __forceinline__ void load_lse(float* to,
                                         const float* lse,
                                         int heads,
                                         int first,
                                         int sequence) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < kCount)
    to[i] = first + i < sequence ? lse[static_cast<int64_t>(first + i) * heads] * kLog2E : 0.0f;
}

// The operands that a block iterates over. In key blocks d is the gradient of the output; then o
// and lse are the output and its statistics, otherwise null.
template <typename T>
struct Streamed {
  HeadRows<const T> c, d, o;
  const float* lse;
};

// The rows of one step, loaded into registers and then stored to shared memory. If there are enough
// registers, they are loaded while the previous step is computed, because a short loop is all
// latency.
template <typename T, int kE, bool kOwnsKeys>
struct Step {
  using Rows = Tile<T, kE>;
  static constexpr int kEach = kColumns * Rows::kVectors / kThreads;
  static constexpr bool kIsEarly = kEach <= 4;
  uint4 c[kIsEarly ? kEach : 1], d[kIsEarly ? kEach : 1], o[kIsEarly && kOwnsKeys ? kEach : 1];
  float lse;

  __device__ __forceinline__ void set_out(const BackwardArguments& p,
                                          const Streamed<T>& from,
                                          int first) {
    if constexpr (kIsEarly) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int i = static_cast<int>(threadIdx.x) + k * kThreads;
        const int row = first + i / Rows::kVectors, column = i % Rows::kVectors * Rows::kVector;
        const bool inside = row < p.visibility.sequence && column < p.head_size;
        c[k] = Rows::vector(from.c, row, column, inside);
        d[k] = Rows::vector(from.d, row, column, inside);
        if constexpr (kOwnsKeys) o[k] = Rows::vector(from.o, row, column, inside);
      }
      if constexpr (kOwnsKeys) {
        const int i = static_cast<int>(threadIdx.x);
        if (i < kColumns)
          lse = first + i < p.visibility.sequence
                    ? from.lse[static_cast<int64_t>(first + i) * p.heads] * kLog2E
                    : 0.0f;
      }
    }
  }

  __device__ __forceinline__ void arrive(const BackwardArguments& p,
                                         Shared<T, kE>& shared,
                                         const Streamed<T>& from,
                                         int first) const {
    if constexpr (kIsEarly) {
#pragma unroll
      for (int k = 0; k < kEach; ++k) {
        const int i = static_cast<int>(threadIdx.x) + k * kThreads;
        const int place = i / Rows::kVectors * Rows::kStride + i % Rows::kVectors * Rows::kVector;
        *reinterpret_cast<uint4*>(shared.c + place) = c[k];
        *reinterpret_cast<uint4*>(shared.d + place) = d[k];
        if constexpr (kOwnsKeys) {
          float sum = Product<T>::dot(d[k], o[k]);
#pragma unroll
          for (int step = Rows::kVectors / 2; step > 0; step /= 2)
            sum += __shfl_xor_sync(0xffffffffu, sum, step);
          if (i % Rows::kVectors == 0) shared.delta[i / Rows::kVectors] = sum;
        }
      }
      if constexpr (kOwnsKeys) {
        if (static_cast<int>(threadIdx.x) < kColumns) shared.lse[threadIdx.x] = lse;
      }
    } else {
      const int sequence = p.visibility.sequence;
      Rows::template load<kColumns>(shared.c, from.c, first, sequence, p.head_size);
      if constexpr (kOwnsKeys) {
        Rows::template load_with_delta<kColumns>(shared.d, shared.delta, from.d, from.o, first,
                                                 sequence, p.head_size);
        load_lse<kColumns>(shared.lse, from.lse, p.heads, first, sequence);
      } else {
        Rows::template load<kColumns>(shared.d, from.d, first, sequence, p.head_size);
      }
    }
  }
};

// Converts s to the probabilities, and dp to the gradients of the scores before `scale`.
template <bool kOwnsKeys>
__device__ __forceinline__ void score_gradients(float (&s)[kTiles][4],
                                                float (&dp)[kTiles][4],
                                                const float* lse,
                                                const float* delta,
                                                const DocumentVisibility& v,
                                                float scale,
                                                int first_row,
                                                int first_column,
                                                Lane l) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    int begin[2];  // the documents of two queries begin there
#pragma unroll
    for (int i = 0; i < 2; ++i)
      begin[i] = v.document_first(kOwnsKeys ? first_column + 8 * j + 2 * l.place + i
                                            : first_row + l.row + l.group + 8 * i);
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int row = l.row + l.group + 8 * (c / 2), column = 8 * j + 2 * l.place + c % 2;
      const int query = kOwnsKeys ? first_column + column : first_row + row;
      const int key = kOwnsKeys ? first_row + row : first_column + column;
      const int place = kOwnsKeys ? column : row;
      const bool visible = key >= begin[kOwnsKeys ? c % 2 : c / 2] && sees(v, query, key);
      const float weight = visible ? exp2f(fmaf(s[j][c], scale * kLog2E, -lse[place])) : 0.0f;
      s[j][c] = weight;
      dp[j][c] = weight * (dp[j][c] - delta[place]);
    }
  }
}

template <typename T, int kE>
__device__ __forceinline__ void key_block(const BackwardArguments& p,
                                          Shared<T, kE>& shared,
                                          int block,
                                          int batch,
                                          int head,
                                          Lane l) {
  const int first = block * kRows, sequence = p.visibility.sequence, group = p.heads / p.kv_heads;
  const int64_t token = static_cast<int64_t>(batch) * sequence;
  const DocumentVisibility visibility = p.visibility.in_row(batch);
  const BlockRange range = query_blocks(visibility, first, first + kRows - 1, kColumns);
  const int count = range.end - range.begin, steps = group * count;
  auto from = [&](int index) {
    const int query_head = head * group + index / count;
    return Streamed<T>{head_rows<T>(p.q, token, query_head), head_rows<T>(p.d_o, token, query_head),
                       head_rows<T>(p.o, token, query_head), p.lse + token * p.heads + query_head};
  };
  auto column = [&](int index) { return (range.begin + index % count) * kColumns; };
  Step<T, kE, true> step;
  if (steps > 0) step.set_out(p, from(0), column(0));
  Tile<T, kE>::template load<kRows>(shared.a, head_rows<T>(p.k, token, head), first, sequence,
                                    p.head_size);
  Tile<T, kE>::template load<kRows>(shared.b, head_rows<T>(p.v, token, head), first, sequence,
                                    p.head_size);
  float dk[kE / 8][4] = {}, dv[kE / 8][4] = {};
  for (int index = 0; index < steps; ++index) {
    __syncthreads();
    step.arrive(p, shared, from(index), column(index));
    if (index + 1 < steps) step.set_out(p, from(index + 1), column(index + 1));
    __syncthreads();
    float s[kTiles][4], dp[kTiles][4];
    row_products<T, kE, kTiles>(shared.a, shared.c, s, l);
    row_products<T, kE, kTiles>(shared.b, shared.d, dp, l);
    score_gradients<true>(s, dp, shared.lse, shared.delta, visibility, p.scale, first,
                          column(index), l);
    add_weighted<T, kE, kTiles>(s, shared.d, dv, l);
    add_weighted<T, kE, kTiles>(dp, shared.c, dk, l);
  }
  store_rows<T, kE>(head_rows<T>(p.dk, token, head), first, sequence, p.head_size, dk, p.scale,
                    p.scale, l);
  store_rows<T, kE>(head_rows<T>(p.dv, token, head), first, sequence, p.head_size, dv, 1.0f, 1.0f,
                    l);
}

template <typename T, int kE>
__device__ __forceinline__ void query_block(const BackwardArguments& p,
                                            Shared<T, kE>& shared,
                                            int block,
                                            int batch,
                                            int head,
                                            Lane l) {
  const int first = block * kRows, sequence = p.visibility.sequence,
            kv_head = head / (p.heads / p.kv_heads);
  const int64_t token = static_cast<int64_t>(batch) * sequence;
  const Streamed<T> from{
      head_rows<T>(p.k, token, kv_head), head_rows<T>(p.v, token, kv_head), {}, nullptr};
  const DocumentVisibility visibility = p.visibility.in_row(batch);
  const BlockRange range = key_blocks(visibility, first, first + kRows - 1, kColumns);
  Step<T, kE, false> step;
  if (range.begin < range.end) step.set_out(p, from, range.begin * kColumns);
  Tile<T, kE>::template load<kRows>(shared.a, head_rows<T>(p.q, token, head), first, sequence,
                                    p.head_size);
  Tile<T, kE>::template load_with_delta<kRows>(
      shared.b, shared.delta, head_rows<T>(p.d_o, token, head), head_rows<T>(p.o, token, head),
      first, sequence, p.head_size);
  load_lse<kRows>(shared.lse, p.lse + token * p.heads + head, p.heads, first, sequence);
  float dq[kE / 8][4] = {};
  for (int n = range.begin; n < range.end; ++n) {
    const int column = n * kColumns;
    __syncthreads();
    step.arrive(p, shared, from, column);
    if (n + 1 < range.end) step.set_out(p, from, column + kColumns);
    __syncthreads();
    float s[kTiles][4], dp[kTiles][4];
    row_products<T, kE, kTiles>(shared.a, shared.c, s, l);
    row_products<T, kE, kTiles>(shared.b, shared.d, dp, l);
    score_gradients<false>(s, dp, shared.lse, shared.delta, visibility, p.scale, first, column, l);
    add_weighted<T, kE, kTiles>(dp, shared.c, dq, l);
  }
  store_rows<T, kE>(head_rows<T>(p.dq, token, head), first, sequence, p.head_size, dq, p.scale,
                    p.scale, l);
}

// Key blocks come first, because they are longer. Within each kind the longest come first: early
// keys, late queries.
template <typename T, int kE>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_backward_tensor_kernel(const __grid_constant__ BackwardArguments p) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared<T, kE>*>(memory);
  const Lane l;
  int index = static_cast<int>(blockIdx.x);
  const int key_heads = p.batch * p.kv_heads, query_heads = p.batch * p.heads;
  if (index < key_heads * p.blocks) {
    const int head = index % key_heads;
    key_block<T, kE>(p, shared, index / key_heads, head / p.kv_heads, head % p.kv_heads, l);
  } else {
    index -= key_heads * p.blocks;
    const int head = index % query_heads;
    query_block<T, kE>(p, shared, p.blocks - 1 - index / query_heads, head / p.heads,
                       head % p.heads, l);
  }
}

template <typename T, int kE>
cudaError_t launch(const BackwardArguments& p, cudaStream_t stream) {
  const auto kernel = flash_attention_backward_tensor_kernel<T, kE>;
  constexpr int kBytes = static_cast<int>(sizeof(Shared<T, kE>));
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  const auto grid = static_cast<unsigned>(p.batch * (p.kv_heads + p.heads) * p.blocks);
  kernel<<<grid, kThreads, kBytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_flash_attention_backward_tensor(const AttentionExtents& extents,
                                                   DType dtype,
                                                   const AttentionBackward& x,
                                                   cudaStream_t stream) {
  const BackwardArguments p{x.q,
                            x.k,
                            x.v,
                            x.o,
                            x.d_o,
                            x.dq,
                            x.dk,
                            x.dv,
                            x.lse,
                            visibility_with_documents(extents),
                            static_cast<int>(extents.batch),
                            static_cast<int>(extents.heads),
                            static_cast<int>(extents.kv_heads),
                            static_cast<int>(extents.head_size),
                            ceil_div(static_cast<int>(extents.sequence), kRows),
                            extents.scale};
  if (dtype == DType::kF32)
    return p.head_size <= 64 ? launch<float, 64>(p, stream) : launch<float, 128>(p, stream);
  return p.head_size <= 64 ? launch<__nv_bfloat16, 64>(p, stream)
                           : launch<__nv_bfloat16, 128>(p, stream);
}

AttentionPairs flash_attention_backward_tensor_pairs(const AttentionExtents& extents) {
  return visited_pairs(visibility_of(extents), kRows, kColumns, extents.batch * extents.heads);
}

}  // namespace ridge::backends::cuda
