// SPDX-License-Identifier: Apache-2.0
// Flash attention backward for any CUDA GPU, beside flash_attention_portable.cu: fp32 or bf16 operands, fp32 arithmetic.
//
// One kernel in two roles. A block keeps 16 kI rows of two operands, a and b, and walks 16 kJ rows of two others, c and
// d, at a time:
//   key pass:   rows are keys,    (a, b) = (K, V),  (c, d) = (Q, dO): dV += P^T d and dK += dS^T c, over all query
//               heads of the group;
//   query pass: rows are queries, (a, b) = (Q, dO), (c, d) = (K, V):  dQ += dS c.
// S comes from a and c, dP from b and d in both. Bound: 8 E and 6 E FLOPs a visited pair at the fp32 FMA rate.
#include "backends/cuda/kernels/flash_attention_portable.cuh"
#include "backends/cuda/kernels/flash_attention_portable_launch.h"

namespace ridge::backends::cuda {
namespace {

using namespace portable;

struct BackwardArguments {
  AttentionInput a, b, c, d;
  AttentionOutput from_c;  // dK or dQ
  AttentionOutput from_d;  // dV, or none
  const float* lse;        // [N, H]
  const float* delta;      // [B H, T]
  Visibility visibility;
  int heads, group, head_size, row_heads;  // row_heads: K in the key pass, H in the query pass
  float scale;
};

struct DeltaArguments {
  AttentionInput o, d_o;
  float* delta;
  int sequence, heads, head_size;
};

// delta[b h, t] = sum_e o do; a warp a row. Bound: bytes of o and do.
template <typename T>
__global__ void __launch_bounds__(kThreads) row_delta_kernel(const __grid_constant__ DeltaArguments p) {
  const int row = static_cast<int>(blockIdx.x) * (kThreads / 32) + static_cast<int>(threadIdx.x) / 32;
  const int lane = threadIdx.x % 32;
  const int flat_head = blockIdx.y;
  const int batch = flat_head / p.heads;
  const int head = flat_head - batch * p.heads;
  if (row >= p.sequence) return;
  const int64_t token = static_cast<int64_t>(batch) * p.sequence;
  const auto o = head_rows<T>(p.o, token, head);
  const auto d_o = head_rows<T>(p.d_o, token, head);
  float sum = 0.0f;
  for (int e = 4 * lane; e < p.head_size; e += 128) {
    const float4 x = load4(o.data + row * o.stride + e);
    const float4 y = load4(d_o.data + row * d_o.stride + e);
    sum += x.x * y.x + x.y * y.y + x.z * y.z + x.w * y.w;
  }
#pragma unroll
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffff, sum, step);
  if (lane == 0) p.delta[static_cast<int64_t>(flat_head) * p.sequence + row] = sum;
}

template <typename T, int kE, int kI, int kJ, bool kKeyPass>
__global__ void __launch_bounds__(kThreads)
    flash_attention_backward_portable_kernel(const __grid_constant__ BackwardArguments p) {
  constexpr int kRows = kSide * kI;
  constexpr int kColumns = kSide * kJ;
  constexpr int kWeightStride = kColumns + kRowPad;
  extern __shared__ __align__(16) float shared[];
  float* a = shared;
  float* b = a + kRows * Tile<kE>::kStride;
  float* c = b + kRows * Tile<kE>::kStride;
  float* d = c + kColumns * Tile<kE>::kStride;
  float* probability = d + kColumns * Tile<kE>::kStride;
  float* gradient = probability + kRows * kWeightStride;
  const int tx = threadIdx.x % kSide;
  const int ty = threadIdx.x / kSide;
  const int batch = static_cast<int>(blockIdx.y) / p.row_heads;
  const int row_head = static_cast<int>(blockIdx.y) - batch * p.row_heads;
  const int sequence = p.visibility.sequence;
  const int64_t token = static_cast<int64_t>(batch) * sequence;
  // The longest first: early keys, late queries.
  const int block = kKeyPass ? static_cast<int>(blockIdx.x) : static_cast<int>(gridDim.x - 1 - blockIdx.x);
  const int first = block * kRows;

  Tile<kE>::template load<kRows>(a, head_rows<T>(p.a, token, row_head), first, sequence, p.head_size);
  Tile<kE>::template load<kRows>(b, head_rows<T>(p.b, token, row_head), first, sequence, p.head_size);
  float sum_c[kI][kE / kSide] = {};
  float sum_d[kKeyPass ? kI : 1][kE / kSide] = {};
  const int passes = kKeyPass ? p.group : 1;
  for (int g = 0; g < passes; ++g) {
    const int query_head = kKeyPass ? row_head * p.group + g : row_head;
    const int column_head = kKeyPass ? query_head : row_head / p.group;
    const float* lse = p.lse + token * p.heads + query_head;
    const float* delta = p.delta + (static_cast<int64_t>(batch) * p.heads + query_head) * sequence;
    const auto rows_c = head_rows<T>(p.c, token, column_head);
    const auto rows_d = head_rows<T>(p.d, token, column_head);
    const BlockRange range = kKeyPass ? query_blocks(p.visibility, first, first + kRows - 1, kColumns)
                                      : key_blocks(p.visibility, first, first + kRows - 1, kColumns);
    for (int n = range.begin; n < range.end; ++n) {
      __syncthreads();
      Tile<kE>::template load<kColumns>(c, rows_c, n * kColumns, sequence, p.head_size);
      Tile<kE>::template load<kColumns>(d, rows_d, n * kColumns, sequence, p.head_size);
      __syncthreads();
      float s[kI][kJ], dp[kI][kJ];
      dot_rows<kE>(a, c, s);
      dot_rows<kE>(b, d, dp);
#pragma unroll
      for (int i = 0; i < kI; ++i) {
#pragma unroll
        for (int j = 0; j < kJ; ++j) {
          const int row = first + ty + kSide * i;
          const int column = n * kColumns + tx + kSide * j;
          const int query = kKeyPass ? column : row;
          const int key = kKeyPass ? row : column;
          float weight = 0.0f, slope = 0.0f;
          if (query < sequence && sees(p.visibility, query, key)) {
            weight = expf(s[i][j] * p.scale - lse[static_cast<int64_t>(query) * p.heads]);
            slope = weight * (dp[i][j] - delta[query]);
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
  store_rows<kE>(head_rows<T>(p.from_c, token, row_head), first, sequence, p.head_size, sum_c, scale);
  if constexpr (kKeyPass) {
    store_rows<kE>(head_rows<T>(p.from_d, token, row_head), first, sequence, p.head_size, sum_d, one);
  }
}

// The block's shape by head size: as large as shared memory and registers allow.
template <int kE>
struct Shape {
  static constexpr int kI = kE == 256 ? 2 : 4;
  static constexpr int kJ = kE == 256 ? 1 : 2;
  static constexpr int kRows = kSide * kI;
  static constexpr int kColumns = kSide * kJ;
  static constexpr int kSharedBytes =
      2 * Tile<kE>::bytes(kRows) + 2 * Tile<kE>::bytes(kColumns) + 2 * kRows * (kColumns + kRowPad) * 4;
};

template <typename T, int kE, bool kKeyPass>
cudaError_t launch_pass(const BackwardArguments& p, int64_t batch, cudaStream_t stream) {
  using Shape = Shape<kE>;
  const auto kernel = flash_attention_backward_portable_kernel<T, kE, Shape::kI, Shape::kJ, kKeyPass>;
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Shape::kSharedBytes);
  if (status != cudaSuccess) return status;
  const dim3 grid(ceil_div(p.visibility.sequence, Shape::kRows), static_cast<unsigned>(batch * p.row_heads));
  kernel<<<grid, kThreads, Shape::kSharedBytes, stream>>>(p);
  return cudaGetLastError();
}

template <typename T, int kE>
cudaError_t launch_both(const AttentionExtents& extents,
                        const AttentionBackward& x,
                        const float* delta,
                        cudaStream_t stream) {
  BackwardArguments p{};
  p.lse = x.lse;
  p.delta = delta;
  p.visibility = visibility_of(extents);
  p.heads = static_cast<int>(extents.heads);
  p.group = static_cast<int>(extents.heads / extents.kv_heads);
  p.head_size = static_cast<int>(extents.head_size);
  p.scale = extents.scale;
  p.a = x.k;
  p.b = x.v;
  p.c = x.q;
  p.d = x.d_o;
  p.from_c = x.dk;
  p.from_d = x.dv;
  p.row_heads = static_cast<int>(extents.kv_heads);
  const cudaError_t status = launch_pass<T, kE, true>(p, extents.batch, stream);
  if (status != cudaSuccess) return status;
  p.a = x.q;
  p.b = x.d_o;
  p.c = x.k;
  p.d = x.v;
  p.from_c = x.dq;
  p.row_heads = p.heads;
  return launch_pass<T, kE, false>(p, extents.batch, stream);
}

template <typename T>
cudaError_t launch_for(const AttentionExtents& extents,
                       const AttentionBackward& x,
                       float* delta,
                       cudaStream_t stream) {
  const DeltaArguments p{x.o,
                         x.d_o,
                         delta,
                         static_cast<int>(extents.sequence),
                         static_cast<int>(extents.heads),
                         static_cast<int>(extents.head_size)};
  const dim3 grid(ceil_div(p.sequence, kThreads / 32), static_cast<unsigned>(extents.batch * extents.heads));
  row_delta_kernel<T><<<grid, kThreads, 0, stream>>>(p);
  const cudaError_t status = cudaGetLastError();
  if (status != cudaSuccess) return status;
  if (extents.head_size <= 64) return launch_both<T, 64>(extents, x, delta, stream);
  if (extents.head_size <= 128) return launch_both<T, 128>(extents, x, delta, stream);
  return launch_both<T, 256>(extents, x, delta, stream);
}

}  // namespace

cudaError_t launch_flash_attention_backward_portable(const AttentionExtents& extents,
                                                     DType dtype,
                                                     const AttentionBackward& operands,
                                                     void* workspace,
                                                     cudaStream_t stream) {
  auto* delta = static_cast<float*>(workspace);
  return dtype == DType::kF32 ? launch_for<float>(extents, operands, delta, stream)
                              : launch_for<__nv_bfloat16>(extents, operands, delta, stream);
}

AttentionPairs flash_attention_backward_portable_pairs(const AttentionExtents& extents) {
  const int rows = extents.head_size <= 128 ? 64 : 32;
  const int columns = extents.head_size <= 128 ? 32 : 16;
  const Visibility visibility = visibility_of(extents);
  AttentionPairs pairs;
  for (int first = 0; first < visibility.sequence; first += rows) {
    const BlockRange queries = query_blocks(visibility, first, first + rows - 1, columns);
    const BlockRange keys = key_blocks(visibility, first, first + rows - 1, columns);
    pairs.key_pass += queries.end - queries.begin;
    pairs.query_pass += keys.end - keys.begin;
  }
  const int64_t all = static_cast<int64_t>(rows) * columns * extents.batch * extents.heads;
  return {pairs.key_pass * all, pairs.query_pass * all};
}

}  // namespace ridge::backends::cuda
