// SPDX-License-Identifier: Apache-2.0
// Flash attention forward for any CUDA GPU: fp32 or bf16 operands, fp32 arithmetic, head sizes that
// are multiples of 8 up to 256. The Hopper and mma.sync kernels take precedence where they support
// the call (see flash_attention.h).
//
// A block owns 16 kI queries and iterates over the keys that they attend to, 16 kJ at a time with
// the online softmax. Each thread holds a kI x kJ piece of the scores and kI rows of E / 16
// outputs. Bound: 4 E FLOPs per visited pair at the fp32 FMA rate; shared memory delivers the
// operands at 1.3 times that rate for kI = kJ = 4.
#include "backends/cuda/kernels/flash_attention/portable/launch.h"
#include "backends/cuda/kernels/flash_attention/portable/tiles.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace portable;

struct ForwardArguments {
  AttentionInput q, k, v;
  AttentionOutput o;
  float* lse;
  DocumentVisibility visibility;
  int heads, group, head_size, blocks;
  float scale;
};

// The 16 threads of a row's half warp hold its statistics.
__device__ __forceinline__ float row_max(float x) {
#pragma unroll
  for (int step = kSide / 2; step > 0; step /= 2)
    x = fmaxf(x, __shfl_xor_sync(0xffffffff, x, step));
  return x;
}
__device__ __forceinline__ float row_sum(float x) {
#pragma unroll
  for (int step = kSide / 2; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffff, x, step);
  return x;
}

template <typename T, int kE, int kI, int kJ>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_forward_portable_kernel(const __grid_constant__ ForwardArguments p) {
  constexpr int kQueries = kSide * kI;
  constexpr int kKeys = kSide * kJ;
  extern __shared__ __align__(16) float shared[];
  float* queries = shared;
  float* streamed = queries + kQueries * Tile<kE>::kStride;  // keys, then values
  float* weights = streamed + kKeys * Tile<kE>::kStride;     // [kQueries, kKeys + kRowPad]
  const int tx = threadIdx.x % kSide;
  const int ty = threadIdx.x / kSide;
  const int block = p.blocks - 1 - static_cast<int>(blockIdx.x);  // if causal, longest first
  const int batch = static_cast<int>(blockIdx.y) / p.heads;
  const int head = static_cast<int>(blockIdx.y) - batch * p.heads;
  const DocumentVisibility visibility = p.visibility.in_row(batch);
  const int sequence = visibility.sequence;
  const int64_t token = static_cast<int64_t>(batch) * sequence;
  const int first = block * kQueries;
  const auto k = head_rows<T>(p.k, token, head / p.group);
  const auto v = head_rows<T>(p.v, token, head / p.group);

  float out[kI][kE / kSide] = {};
  float top[kI], sum[kI];
#pragma unroll
  for (int i = 0; i < kI; ++i) {
    top[i] = -INFINITY;
    sum[i] = 0.0f;
  }
  Tile<kE>::template load<kQueries>(queries, head_rows<T>(p.q, token, head), first, sequence,
                                    p.head_size);
  const BlockRange range = key_blocks(visibility, first, first + kQueries - 1, kKeys);
  for (int n = range.begin; n < range.end; ++n) {
    Tile<kE>::template load<kKeys>(streamed, k, n * kKeys, sequence, p.head_size);
    __syncthreads();
    float s[kI][kJ];
    dot_rows<kE>(queries, streamed, s);
#pragma unroll
    for (int i = 0; i < kI; ++i) {
      const int query = first + ty + kSide * i;
      const int begin = visibility.document_first(query);
      float block_top = -INFINITY;
#pragma unroll
      for (int j = 0; j < kJ; ++j) {
        const int key = n * kKeys + tx + kSide * j;
        s[i][j] = key >= begin && sees(visibility, query, key) ? s[i][j] * p.scale : -INFINITY;
        block_top = fmaxf(block_top, s[i][j]);
      }
      const float next = fmaxf(top[i], row_max(block_top));
      const float base = next == -INFINITY ? 0.0f : next;
      const float factor = expf(top[i] - base);
      top[i] = next;
      float block_sum = 0.0f;
#pragma unroll
      for (int j = 0; j < kJ; ++j) {
        s[i][j] = expf(s[i][j] - base);
        block_sum += s[i][j];
        weights[(ty + kSide * i) * (kKeys + kRowPad) + tx + kSide * j] = s[i][j];
      }
      sum[i] = sum[i] * factor + block_sum;
#pragma unroll
      for (int c = 0; c < kE / kSide; ++c) out[i][c] *= factor;
    }
    __syncthreads();
    Tile<kE>::template load<kKeys>(streamed, v, n * kKeys, sequence, p.head_size);
    __syncthreads();
    accumulate_rows<kE, kI, kKeys>(weights, streamed, out);
    __syncthreads();
  }
  float inverse[kI];
#pragma unroll
  for (int i = 0; i < kI; ++i) {
    const float total = row_sum(sum[i]);
    inverse[i] = total > 0.0f ? 1.0f / total : 0.0f;
    const int query = first + ty + kSide * i;
    if (tx == 0 && query < sequence) {
      p.lse[(token + query) * p.heads + head] = total > 0.0f ? top[i] + logf(total) : -INFINITY;
    }
  }
  store_rows<kE>(head_rows<T>(p.o, token, head), first, sequence, p.head_size, out, inverse);
}

template <typename T, int kE, int kI, int kJ>
struct Forward {
  static constexpr int kQueries = kSide * kI;
  static constexpr int kKeys = kSide * kJ;
  static constexpr int kSharedBytes =
      Tile<kE>::bytes(kQueries) + Tile<kE>::bytes(kKeys) + kQueries * (kKeys + kRowPad) * 4;

  static cudaError_t launch(ForwardArguments p, int64_t batch, cudaStream_t stream) {
    p.blocks = ceil_div(p.visibility.sequence, kQueries);
    const dim3 grid(p.blocks, static_cast<unsigned>(batch * p.heads));
    const auto kernel = flash_attention_forward_portable_kernel<T, kE, kI, kJ>;
    const cudaError_t status =
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kSharedBytes);
    if (status != cudaSuccess) return status;
    kernel<<<grid, kThreads, kSharedBytes, stream>>>(p);
    return cudaGetLastError();
  }
};

template <typename T>
cudaError_t launch_for(const ForwardArguments& p, int64_t batch, cudaStream_t stream) {
  if (p.head_size <= 64) return Forward<T, 64, 4, 4>::launch(p, batch, stream);
  if (p.head_size <= 128) return Forward<T, 128, 4, 4>::launch(p, batch, stream);
  return Forward<T, 256, 2, 2>::launch(p, batch, stream);
}

}  // namespace

cudaError_t launch_flash_attention_forward_portable(const AttentionExtents& extents,
                                                    DType dtype,
                                                    const AttentionInput& q,
                                                    const AttentionInput& k,
                                                    const AttentionInput& v,
                                                    const AttentionOutput& o,
                                                    float* lse,
                                                    cudaStream_t stream) {
  const ForwardArguments p{q,
                           k,
                           v,
                           o,
                           lse,
                           visibility_with_documents(extents),
                           static_cast<int>(extents.heads),
                           static_cast<int>(extents.heads / extents.kv_heads),
                           static_cast<int>(extents.head_size),
                           0,
                           extents.scale};
  return dtype == DType::kF32 ? launch_for<float>(p, extents.batch, stream)
                              : launch_for<__nv_bfloat16>(p, extents.batch, stream);
}

int64_t flash_attention_forward_portable_pairs(const AttentionExtents& extents) {
  const int side = extents.head_size <= 128 ? 64 : 32;
  return visited_pairs(visibility_of(extents), side, side, extents.batch * extents.heads)
      .query_pass;
}

}  // namespace ridge::backends::cuda
