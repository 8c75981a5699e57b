// SPDX-License-Identifier: Apache-2.0
// The softmax of the scores of a cache's cells, with their scale and their mask: what lies between
// cached_scores and cached_mix. Hidden scores are not read.
#include "backends/cuda/kernels/cache/cached_attention.h"
#include "backends/cuda/kernels/map_rows.cuh"
#include "backends/cuda/kernels/softmax/softmax_rows.cuh"

namespace ridge::backends::cuda {
namespace {

// The cells that a token attends to: those up to `reach` positions behind it, around the ring.
struct SeenCells {
  int32_t last;   // cell of the token's own position
  int32_t reach;  // -1: none
  int32_t ring;

  template <typename T>
  __device__ __forceinline__ SeenCells(const CachedMask<T>& p, uint32_t token)
      : ring(static_cast<int32_t>(p.ring)) {
    const int32_t position = p.positions[token];
    reach = p.window == 0 ? position : min(position, static_cast<int32_t>(p.window) - 1);
    last = position < ring ? max(position, 0) : position % ring;  // most caches never wrap
  }
  __device__ __forceinline__ bool has(int32_t cell) const {
    const int32_t ahead = last - cell;
    return (ahead < 0 ? ahead + ring : ahead) <= reach;
  }
  // Whether it may have one of the cells. Behind the token, the last of them is the nearest.
  __device__ __forceinline__ bool may_have(int32_t first, int32_t count) const {
    return (first <= last && last < first + count) ? reach >= 0 : has(first + count - 1);
  }
  // Whether it has all of the cells; false for some wide windows around the end of the ring.
  __device__ __forceinline__ bool has_all(int32_t first, int32_t count) const {
    return has(first) && has(first + count - 1) && ring - reach > count;
  }
};

// Mapping: one group per row, with the row in registers. Bound: memory, at most 2 R C sizeof(T).
template <typename T, int kGroup, int kCount>
__global__ void __launch_bounds__(RowGroup<kGroup>::kThreads)
    cached_softmax_kernel(const __grid_constant__ CachedSoftmax<T> p, FastDivide per_token) {
  using Group = RowGroup<kGroup>;
  constexpr int kVector = kVectorOf<T>;
  __shared__ ReduceScratch scratch;
  const CachedMask<T>& mask = p.mask;
  const int64_t row = Group::first_row();
  if (row >= mask.tokens * mask.heads) return;
  const SeenCells seen(mask, per_token.quotient(static_cast<uint32_t>(row)));
  auto column_of = [](int k) { return (static_cast<int>(Group::lane()) + k * kGroup) * kVector; };
  Packed<T, kVector> raw[kCount];
  bool is_read[kCount];
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    const int column = column_of(k);
    is_read[k] = column < mask.columns && seen.may_have(column, kVector);
    if (is_read[k]) raw[k] = load_packed<kVector>(mask.x + row * mask.columns + column);
  }
  float v[kCount * kVector], top = kMinusInfinity;
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    if (!is_read[k]) continue;
    float one[kVector];
    unpack(raw[k], one);
    const bool has_all = seen.has_all(column_of(k), kVector);
#pragma unroll
    for (int i = 0; i < kVector; ++i) {
      const bool is_seen = has_all || seen.has(column_of(k) + i);
      v[k * kVector + i] = is_seen ? one[i] : kMinusInfinity;
      top = fmaxf(top, v[k * kVector + i]);
    }
  }
  const float base = exponent_base(Group::reduce(top, Max{}, scratch, 0)),
              to_log2 = p.scale * kLog2OfE;
  float sum = 0.0f;
#pragma unroll
  for (int k = 0; k < kCount; ++k)
#pragma unroll
    for (int i = k * kVector; i < (k + 1) * kVector; ++i) {
      v[i] = is_read[k] ? exp_difference<T>(v[i], base, to_log2) : 0.0f;
      sum += v[i];
    }
  const float factor = softmax_factor<SoftmaxForm::kPlain>(Group::reduce(sum, Sum{}, scratch, 1));
#pragma unroll
  for (int k = 0; k < kCount; ++k) {
    if (column_of(k) >= mask.columns) continue;
    float one[kVector];
#pragma unroll
    for (int i = 0; i < kVector; ++i) one[i] = v[k * kVector + i] * factor;
    store_floats(mask.y + row * mask.columns + column_of(k), one);
  }
}

// Any width. Mapping: one block per row, which it reads twice. Bound: memory, at most 3 R C
// sizeof(T), or 2 if the row stays in L2.
template <typename T>
__global__ void __launch_bounds__(256)
    cached_softmax_any_kernel(const __grid_constant__ CachedSoftmax<T> p) {
  using Group = RowGroup<256>;
  __shared__ ReduceScratch scratch;
  const CachedMask<T>& mask = p.mask;
  const int64_t row = blockIdx.x;
  const SeenCells seen(mask, static_cast<uint32_t>(row / mask.heads));
  const T* x = mask.x + row * mask.columns;
  const float to_log2 = p.scale * kLog2OfE;
  OnlineSum part;
  for (int64_t c = threadIdx.x; c < mask.columns; c += 256) {
    if (!seen.has(static_cast<int32_t>(c))) continue;
    const float one[1] = {to_float(x[c])};
    part.template add<T>(one, to_log2);
  }
  const OnlineSum all = part.template reduce<Group>(to_log2, scratch);
  const float factor = softmax_factor<SoftmaxForm::kPlain>(all.sum), base = exponent_base(all.top);
  for (int64_t c = threadIdx.x; c < mask.columns; c += 256) {
    const bool is_seen = seen.has(static_cast<int32_t>(c));
    const float e = is_seen ? exp_difference<T>(to_float(x[c]), base, to_log2) * factor : 0.0f;
    mask.y[row * mask.columns + c] = from_float<T>(e);
  }
}

}  // namespace

template <typename T>
cudaError_t launch_cached_softmax(const CachedSoftmax<T>& call, cudaStream_t stream) {
  const CachedMask<T>& mask = call.mask;
  const int64_t rows = mask.tokens * mask.heads;
  constexpr int64_t kMost = INT32_MAX;
  if (!rows_fit_grid(rows, mask.columns) || mask.ring > kMost || mask.window > kMost ||
      mask.columns > kMost)
    return cudaErrorInvalidValue;
  if (rows == 0 || mask.columns == 0) return cudaSuccess;
  constexpr int kVector = kVectorOf<T>;
  const bool vectors = mask.columns % kVector == 0 && takes_vectors<kVector>(mask.x) &&
                       takes_vectors<kVector>(mask.y);
  const bool held = vectors && with_row_shape<1024>(mask.columns / kVector, [&](auto shape) {
                      constexpr int kGroup = decltype(shape)::kGroupThreads;
                      using Group = RowGroup<kGroup>;
                      const auto grid =
                          static_cast<unsigned>((rows + Group::kRows - 1) / Group::kRows);
                      cached_softmax_kernel<T, kGroup, decltype(shape)::kVectors>
                          <<<grid, Group::kThreads, 0, stream>>>(call, FastDivide(mask.heads));
                    });
  if (!held) cached_softmax_any_kernel<<<static_cast<unsigned>(rows), 256, 0, stream>>>(call);
  return cudaGetLastError();
}

template cudaError_t launch_cached_softmax(const CachedSoftmax<float>&, cudaStream_t);
template cudaError_t launch_cached_softmax(const CachedSoftmax<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
