// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for any CUDA GPU: fp32 or bf16 operands, fp32 arithmetic. The forward
// pass is in forward.cu.
//
// One kernel whose blocks have two roles, so that both fill the GPU together. A block keeps 16 kI
// rows of two operands, a and b, and iterates over 16 kJ rows of two others, c and d, at a time:
//   key pass:   rows are keys,    (a, b) = (K, V),  (c, d) = (Q, dO): dV += P^T d and
//               dK += dS^T c, over all query heads of the group;
//   query pass: rows are queries, (a, b) = (Q, dO), (c, d) = (K, V):  dQ += dS c.
// S is computed from a and c, dP from b and d in both passes. Bound: 8 E and 6 E FLOPs per visited
// pair at the fp32 FMA rate.
#include "backends/cuda/kernels/flash_attention/portable/launch.h"
#include "backends/cuda/kernels/flash_attention/portable/tiles.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace portable;

struct BackwardPass {
  AttentionInput a, b, c, d;
  AttentionOutput from_c;  // dK or dQ
  AttentionOutput from_d;  // dV, or none
  int row_heads;           // K in the key pass, H in the query pass
};

struct BackwardArguments {
  BackwardPass keys, queries;
  AttentionInput o;
  const float* lse;  // [N, H]
  DocumentVisibility visibility;
  int batch, heads, group, head_size, blocks;
  float scale;
};

template <typename T, int kE, int kI, int kJ, bool kKeyPass>
__device__ __forceinline__ void run_pass(const BackwardArguments& p,
                                         const BackwardPass& pass,
                                         float* shared,
                                         int block,
                                         int flat_head) {
  constexpr int kRows = kSide * kI;
  constexpr int kColumns = kSide * kJ;
  constexpr int kWeightStride = kColumns + kRowPad;
  float* a = shared;
  float* b = a + kRows * Tile<kE>::kStride;
  float* c = b + kRows * Tile<kE>::kStride;
  float* d = c + kColumns * Tile<kE>::kStride;
  float* probability = d + kColumns * Tile<kE>::kStride;
  float* gradient = probability + kRows * kWeightStride;
  // Statistics of the queries, which are the block's rows or the columns that it iterates over.
  float* delta = gradient + kRows * kWeightStride;
  const int tx = threadIdx.x % kSide;
  const int ty = threadIdx.x / kSide;
  const int batch = flat_head / pass.row_heads;
  const int row_head = flat_head - batch * pass.row_heads;
  const DocumentVisibility visibility = p.visibility.in_row(batch);
  const int sequence = visibility.sequence;
  const int64_t token = static_cast<int64_t>(batch) * sequence;
  const int first = block * kRows;

  Tile<kE>::template load<kRows>(a, head_rows<T>(pass.a, token, row_head), first, sequence,
                                 p.head_size);
  if constexpr (kKeyPass) {
    Tile<kE>::template load<kRows>(b, head_rows<T>(pass.b, token, row_head), first, sequence,
                                   p.head_size);
  } else {
    Tile<kE>::template load_with_delta<kRows>(b, delta, head_rows<T>(pass.b, token, row_head),
                                              head_rows<T>(p.o, token, row_head), first, sequence,
                                              p.head_size);
  }
  float sum_c[kI][kE / kSide] = {};
  float sum_d[kKeyPass ? kI : 1][kE / kSide] = {};
  const int passes = kKeyPass ? p.group : 1;
  for (int g = 0; g < passes; ++g) {
    const int query_head = kKeyPass ? row_head * p.group + g : row_head;
    const int column_head = kKeyPass ? query_head : row_head / p.group;
    const float* lse = p.lse + token * p.heads + query_head;
    const auto rows_c = head_rows<T>(pass.c, token, column_head);
    const auto rows_d = head_rows<T>(pass.d, token, column_head);
    const BlockRange range = kKeyPass ? query_blocks(visibility, first, first + kRows - 1, kColumns)
                                      : key_blocks(visibility, first, first + kRows - 1, kColumns);
    for (int n = range.begin; n < range.end; ++n) {
      __syncthreads();
      Tile<kE>::template load<kColumns>(c, rows_c, n * kColumns, sequence, p.head_size);
      if constexpr (kKeyPass) {
        Tile<kE>::template load_with_delta<kColumns>(d, delta, rows_d,
                                                     head_rows<T>(p.o, token, query_head),
                                                     n * kColumns, sequence, p.head_size);
      } else {
        Tile<kE>::template load<kColumns>(d, rows_d, n * kColumns, sequence, p.head_size);
      }
      __syncthreads();
      float s[kI][kJ], dp[kI][kJ];
      dot_rows<kE>(a, c, s);
      dot_rows<kE>(b, d, dp);
      int begin[kKeyPass ? kJ : kI];  // the queries' documents begin there
#pragma unroll
      for (int i = 0; i < (kKeyPass ? kJ : kI); ++i)
        begin[i] =
            visibility.document_first((kKeyPass ? n * kColumns + tx : first + ty) + kSide * i);
#pragma unroll
      for (int i = 0; i < kI; ++i) {
#pragma unroll
        for (int j = 0; j < kJ; ++j) {
          const int row = first + ty + kSide * i;
          const int column = n * kColumns + tx + kSide * j;
          const int query = kKeyPass ? column : row;
          const int key = kKeyPass ? row : column;
          float weight = 0.0f, slope = 0.0f;
          if (query < sequence && key >= begin[kKeyPass ? j : i] && sees(visibility, query, key)) {
            weight = expf(s[i][j] * p.scale - lse[static_cast<int64_t>(query) * p.heads]);
            slope = weight * (dp[i][j] - delta[kKeyPass ? tx + kSide * j : ty + kSide * i]);
          }
          const int place = (ty + kSide * i) * kWeightStride + tx + kSide * j;
          if (kKeyPass) probability[place] = weight;
          gradient[place] = slope;
        }
      }
      __syncthreads();
      accumulate_rows<kE, kI, kColumns>(gradient, c, sum_c);
      if constexpr (kKeyPass) accumulate_rows<kE, kI, kColumns>(probability, d, sum_d);
    }
  }
  float scale[kI], one[kI];
#pragma unroll
  for (int i = 0; i < kI; ++i) {
    scale[i] = p.scale;
    one[i] = 1.0f;
  }
  store_rows<kE>(head_rows<T>(pass.from_c, token, row_head), first, sequence, p.head_size, sum_c,
                 scale);
  if constexpr (kKeyPass) {
    store_rows<kE>(head_rows<T>(pass.from_d, token, row_head), first, sequence, p.head_size, sum_d,
                   one);
  }
}

// Key blocks come first, because they are longer. Within each kind the longest come first: early
// keys, late queries.
template <typename T, int kE, int kI, int kJ>
__global__ void __launch_bounds__(kThreads)
    flash_attention_backward_portable_kernel(const __grid_constant__ BackwardArguments p) {
  extern __shared__ __align__(16) float shared[];
  int index = static_cast<int>(blockIdx.x);
  const int key_heads = p.batch * p.keys.row_heads, query_heads = p.batch * p.queries.row_heads;
  if (index < key_heads * p.blocks) {
    run_pass<T, kE, kI, kJ, true>(p, p.keys, shared, index / key_heads, index % key_heads);
  } else {
    index -= key_heads * p.blocks;
    run_pass<T, kE, kI, kJ, false>(p, p.queries, shared, p.blocks - 1 - index / query_heads,
                                   index % query_heads);
  }
}

// The shape of a block for a head size: as large as shared memory and registers allow, or with half
// the rows.
template <int kE, bool kHalf>
struct Shape {
  static constexpr int kI = kE == 256 || kHalf ? 2 : 4;
  static constexpr int kJ = kE == 256 ? 1 : kHalf ? 4 : 2;
  static constexpr int kRows = kSide * kI;
  static constexpr int kColumns = kSide * kJ;
  static constexpr int kDeltas = kRows > kColumns ? kRows : kColumns;
  static constexpr int kSharedBytes = 2 * Tile<kE>::bytes(kRows) + 2 * Tile<kE>::bytes(kColumns) +
                                      2 * kRows * (kColumns + kRowPad) * 4 + kDeltas * 4;
};

// If there are few blocks of 64 rows, the longest block determines the time of a launch.
bool takes_half(const AttentionExtents& extents) {
  constexpr int64_t kFewPerMultiprocessor = 2;
  const int64_t blocks = extents.batch * (extents.heads + extents.kv_heads) *
                         ceil_div(static_cast<int>(extents.sequence), 64);
  return extents.head_size <= 64 && blocks < kFewPerMultiprocessor * multiprocessors();
}

template <typename T, int kE, bool kHalf>
cudaError_t launch_both(const AttentionExtents& extents,
                        const AttentionBackward& x,
                        cudaStream_t stream) {
  using Shape = Shape<kE, kHalf>;
  BackwardArguments p{};
  p.keys = {x.k, x.v, x.q, x.d_o, x.dk, x.dv, static_cast<int>(extents.kv_heads)};
  p.queries = {x.q, x.d_o, x.k, x.v, x.dq, {}, static_cast<int>(extents.heads)};
  p.o = x.o;
  p.lse = x.lse;
  p.visibility = visibility_with_documents(extents);
  p.batch = static_cast<int>(extents.batch);
  p.heads = static_cast<int>(extents.heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.head_size = static_cast<int>(extents.head_size);
  p.blocks = ceil_div(p.visibility.sequence, Shape::kRows);
  p.scale = extents.scale;
  const auto kernel = flash_attention_backward_portable_kernel<T, kE, Shape::kI, Shape::kJ>;
  const cudaError_t status = cudaFuncSetAttribute(
      kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
  if (status != cudaSuccess) return status;
  const auto grid =
      static_cast<unsigned>(p.batch * (p.keys.row_heads + p.queries.row_heads) * p.blocks);
  kernel<<<grid, kThreads, Shape::kSharedBytes, stream>>>(p);
  return cudaGetLastError();
}

template <typename T>
cudaError_t launch_for(const AttentionExtents& extents,
                       const AttentionBackward& x,
                       cudaStream_t stream) {
  if (takes_half(extents)) return launch_both<T, 64, true>(extents, x, stream);
  if (extents.head_size <= 64) return launch_both<T, 64, false>(extents, x, stream);
  if (extents.head_size <= 128) return launch_both<T, 128, false>(extents, x, stream);
  return launch_both<T, 256, false>(extents, x, stream);
}

}  // namespace

cudaError_t launch_flash_attention_backward_portable(const AttentionExtents& extents,
                                                     DType dtype,
                                                     const AttentionBackward& operands,
                                                     cudaStream_t stream) {
  return dtype == DType::kF32 ? launch_for<float>(extents, operands, stream)
                              : launch_for<__nv_bfloat16>(extents, operands, stream);
}

AttentionPairs flash_attention_backward_portable_pairs(const AttentionExtents& extents) {
  const bool half = takes_half(extents);
  const int rows = extents.head_size > 128 || half ? 32 : 64;
  const int columns = extents.head_size > 128 ? 16 : half ? 64 : 32;
  return visited_pairs(visibility_of(extents), rows, columns, extents.batch * extents.heads);
}

}  // namespace ridge::backends::cuda
