// SPDX-License-Identifier: Apache-2.0
// Flash attention forward on mma.sync: fp32 as TF32 and bf16, head sizes that are multiples of 8 up
// to 128. The gradient is in backward.cu.
//
// A block owns 64 queries and iterates over the keys that they attend to, 64 at a time with the
// online softmax. The scores stay in registers between the two products. Bound: 4 E FLOPs per
// visited pair at the rate of mma.sync; shared memory delivers the operands at two thirds of that
// rate.
#include "backends/cuda/kernels/flash_attention/tensor/launch.h"
#include "backends/cuda/kernels/flash_attention/tensor/tiles.cuh"

namespace ridge::backends::cuda {
namespace {

using namespace tensor;

constexpr int kKeys = 64;
constexpr int kTiles = kKeys / 8;

struct ForwardArguments {
  AttentionInput q, k, v;
  AttentionOutput o;
  float* lse;
  DocumentVisibility visibility;
  int heads, group, head_size, blocks, flat_heads;
  float scale;
};

template <typename T, int kE>
struct Shared {
  T queries[kRows * Tile<T, kE>::kStride];
  T keys[kKeys * Tile<T, kE>::kStride];
  T values[kKeys * Tile<T, kE>::kStride];
};

// The four threads that hold a row's scores hold its statistics.
__device__ __forceinline__ float row_max(float x) {
  x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
  return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
}
__device__ __forceinline__ float row_sum(float x) {
  x += __shfl_xor_sync(0xffffffffu, x, 1);
  return x + __shfl_xor_sync(0xffffffffu, x, 2);
}

// Converts scores, scaled to base 2, to weights, and updates the statistics of rows g and g + 8 and
// the sums so far.
template <int kE>
__device__ __forceinline__ void online_softmax(float (&s)[kTiles][4],
                                               float (&top)[2],
                                               float (&sum)[2],
                                               float (&out)[kE / 8][4]) {
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    float highest = -INFINITY;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) highest = fmaxf(highest, fmaxf(s[j][2 * r], s[j][2 * r + 1]));
    const float next = fmaxf(top[r], row_max(highest));
    const float base = next == -INFINITY ? 0.0f : next;
    const float factor = exp2f(top[r] - base);
    top[r] = next;
    float block_sum = 0.0f;
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int c = 2 * r; c < 2 * r + 2; ++c) {
        s[j][c] = exp2f(s[j][c] - base);
        block_sum += s[j][c];
      }
    }
    sum[r] = sum[r] * factor + block_sum;
#pragma unroll
    for (int n = 0; n < kE / 8; ++n) {
      out[n][2 * r] *= factor;
      out[n][2 * r + 1] *= factor;
    }
  }
}

template <typename T, int kE>
__global__ void __launch_bounds__(kThreads, 2)
    flash_attention_forward_tensor_kernel(const __grid_constant__ ForwardArguments p) {
  extern __shared__ __align__(16) unsigned char memory[];
  auto& shared = *reinterpret_cast<Shared<T, kE>*>(memory);
  const Lane l;
  const int flat_head = static_cast<int>(blockIdx.x) % p.flat_heads;
  // For causal attention the longest blocks come first.
  const int block = p.blocks - 1 - static_cast<int>(blockIdx.x) / p.flat_heads;
  const int batch = flat_head / p.heads, head = flat_head % p.heads;
  const DocumentVisibility visibility = p.visibility.in_row(batch);
  const int sequence = visibility.sequence, first = block * kRows;
  const int64_t token = static_cast<int64_t>(batch) * sequence;
  const auto k = head_rows<T>(p.k, token, head / p.group);
  const auto v = head_rows<T>(p.v, token, head / p.group);

  Tile<T, kE>::template load<kRows>(shared.queries, head_rows<T>(p.q, token, head), first, sequence,
                                    p.head_size);
  float out[kE / 8][4] = {};
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0.0f, 0.0f};
  const BlockRange range = key_blocks(visibility, first, first + kRows - 1, kKeys);
  for (int n = range.begin; n < range.end; ++n) {
    __syncthreads();
    Tile<T, kE>::template load<kKeys>(shared.keys, k, n * kKeys, sequence, p.head_size);
    Tile<T, kE>::template load<kKeys>(shared.values, v, n * kKeys, sequence, p.head_size);
    __syncthreads();
    float s[kTiles][4];
    row_products<T, kE, kTiles>(shared.queries, shared.keys, s, l);
    const int begin[2] = {visibility.document_first(first + l.row + l.group),
                          visibility.document_first(first + l.row + l.group + 8)};
#pragma unroll
    for (int j = 0; j < kTiles; ++j) {
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        const int query = first + l.row + l.group + 8 * (c / 2),
                  key = n * kKeys + 8 * j + 2 * l.place + c % 2;
        s[j][c] = key >= begin[c / 2] && sees(visibility, query, key) ? s[j][c] * (p.scale * kLog2E)
                                                                      : -INFINITY;
      }
    }
    online_softmax<kE>(s, top, sum, out);
    add_weighted<T, kE, kTiles>(s, shared.values, out, l);
  }
  float inverse[2];
#pragma unroll
  for (int r = 0; r < 2; ++r) {
    const float total = row_sum(sum[r]);
    inverse[r] = total > 0.0f ? 1.0f / total : 0.0f;
    const int query = first + l.row + l.group + 8 * r;
    if (l.place == 0 && query < sequence)
      p.lse[(token + query) * p.heads + head] =
          total > 0.0f ? top[r] / kLog2E + logf(total) : -INFINITY;
  }
  store_rows<T, kE>(head_rows<T>(p.o, token, head), first, sequence, p.head_size, out, inverse[0],
                    inverse[1], l);
}

template <typename T, int kE>
cudaError_t launch(const ForwardArguments& p, cudaStream_t stream) {
  const auto kernel = flash_attention_forward_tensor_kernel<T, kE>;
  constexpr int kBytes = static_cast<int>(sizeof(Shared<T, kE>));
  const cudaError_t status =
      cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, kBytes);
  if (status != cudaSuccess) return status;
  kernel<<<static_cast<unsigned>(p.flat_heads * p.blocks), kThreads, kBytes, stream>>>(p);
  return cudaGetLastError();
}

}  // namespace

cudaError_t launch_flash_attention_forward_tensor(const AttentionExtents& extents,
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
                           ceil_div(static_cast<int>(extents.sequence), kRows),
                           static_cast<int>(extents.batch * extents.heads),
                           extents.scale};
  if (dtype == DType::kF32)
    return p.head_size <= 64 ? launch<float, 64>(p, stream) : launch<float, 128>(p, stream);
  return p.head_size <= 64 ? launch<__nv_bfloat16, 64>(p, stream)
                           : launch<__nv_bfloat16, 128>(p, stream);
}

int64_t flash_attention_forward_tensor_pairs(const AttentionExtents& extents) {
  return visited_pairs(visibility_of(extents), kRows, kKeys, extents.batch * extents.heads)
      .query_pass;
}

}  // namespace ridge::backends::cuda
