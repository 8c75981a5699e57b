// SPDX-License-Identifier: Apache-2.0
// Rotary embedding: rotates pairs, copies heads that are not rotated, and computes the table of
// angles.
#include "backends/cuda/kernels/rope/rope.h"

#include <cmath>
#include <numbers>

#include "backends/cuda/kernels/map_rows.cuh"

namespace ridge::backends::cuda {
namespace {

// A row is a token; its columns are pairs, head after head, kCount of one head at a time. Bound:
// memory, 2 N heads E sizeof(T), and 4 N E of table, which later heads of a token read from L1.
template <typename T, int kCount, RopePairs kPairs>
struct RopeBody {
  static constexpr int kVector = kCount;
  // Elements that are moved together: 2 kCount if pairs are interleaved, otherwise the first
  // elements and then the second. A single pair may have any alignment.
  static constexpr int kParts = kPairs == RopePairs::kInterleaved && kCount > 1 ? 1 : 2;
  static constexpr int kPart = 2 * kCount / kParts;
  struct LoadedVectors {
    Packed<T, kPart> part[kParts];
    float cos[kCount], sin[kCount];
  };
  TokenHeads<const T> x;
  TokenHeads<T> y;
  const float* cos;
  const float* sin;
  FastDivide per_head;  // by E/2
  uint32_t rotated_heads;
  float sign;  // sign of the sine

  // The distance from one part to the other.
  __device__ __forceinline__ int64_t apart() const {
    return kPairs == RopePairs::kHalves ? per_head.divisor : 1;
  }
  template <typename Operand>
  __device__ __forceinline__ int64_t
  offset(const Operand& operand, uint32_t row, uint32_t head, uint32_t pair) const {
    return row * operand.token_stride + head * operand.head_stride +
           (kPairs == RopePairs::kHalves ? pair : 2 * pair);
  }

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    const uint32_t head = per_head.quotient(at.column);
    const uint32_t pair = at.column - head * per_head.divisor;
    const T* from = x.data + offset(x, at.row, head, pair);
#pragma unroll
    for (int i = 0; i < kParts; ++i) item.part[i] = load_packed<kPart>(from + i * apart());
    if (head < rotated_heads) {
      const int64_t angle = static_cast<int64_t>(at.row) * per_head.divisor + pair;
      load_floats(cos + angle, item.cos);
      load_floats(sin + angle, item.sin);
    }
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace at) const {
    const uint32_t head = per_head.quotient(at.column);
    T* to = y.data + offset(y, at.row, head, at.column - head * per_head.divisor);
    if (head >= rotated_heads) {
#pragma unroll
      for (int i = 0; i < kParts; ++i) store_packed(to + i * apart(), item.part[i]);
      return;
    }
    float v[2 * kCount], turned[2 * kCount];
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      float one[kPart];
      unpack(item.part[i], one);
#pragma unroll
      for (int k = 0; k < kPart; ++k) v[i * kPart + k] = one[k];
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const int first = kPairs == RopePairs::kHalves ? i : 2 * i;
      const int second = kPairs == RopePairs::kHalves ? kCount + i : 2 * i + 1;
      const float sine = item.sin[i] * sign;
      turned[first] = v[first] * item.cos[i] - v[second] * sine;
      turned[second] = v[second] * item.cos[i] + v[first] * sine;
    }
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      float one[kPart];
#pragma unroll
      for (int k = 0; k < kPart; ++k) one[k] = turned[i * kPart + k];
      store_floats(to + i * apart(), one);
    }
  }
};

template <typename T, int kCount, RopePairs kPairs>
cudaError_t launch(const Rope<T>& call, int64_t heads, cudaStream_t stream) {
  const RopeBody<T, kCount, kPairs> body{call.x,
                                         call.y,
                                         call.cos,
                                         call.sin,
                                         FastDivide(call.head_size / 2),
                                         static_cast<uint32_t>(call.rotated_heads),
                                         call.inverse ? -1.0f : 1.0f};
  // The same number of bytes in flight per thread, whether in one part or two.
  constexpr int kUnroll = 4 / RopeBody<T, kCount, kPairs>::kParts;
  return launch_map_rows<RopeBody<T, kCount, kPairs>, kUnroll>(
      body, call.tokens, heads * (call.head_size / 2), stream);
}

template <int kCount, typename T>
bool heads_take_vectors(const TokenHeads<T>& operand) {
  return takes_vectors<kCount>(StridedRows<T>{operand.data, operand.token_stride}) &&
         takes_vectors<kCount>(StridedRows<T>{operand.data, operand.head_stride});
}

template <typename T, RopePairs kPairs>
cudaError_t launch_pairs(const Rope<T>& call, cudaStream_t stream) {
  // In place, heads that are not rotated need no copy.
  const int64_t heads = call.x.data == call.y.data ? call.rotated_heads : call.heads;
  constexpr int kCount = kVectorOf<T> / (kPairs == RopePairs::kInterleaved ? 2 : 1);
  constexpr int kPart = RopeBody<T, kCount, kPairs>::kPart;
  const bool vectors = call.head_size / 2 % kCount == 0 && heads_take_vectors<kPart>(call.x) &&
                       heads_take_vectors<kPart>(call.y) && takes_vectors<kCount>(call.cos) &&
                       takes_vectors<kCount>(call.sin);
  return vectors ? launch<T, kCount, kPairs>(call, heads, stream)
                 : launch<T, 1, kPairs>(call, heads, stream);
}

// The angle in radians by which pair i rotates from one position to the next.
double frequency(const RopeTable& call, int64_t i) {
  const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(call.head_size);
  const double plain = std::pow(call.theta, exponent);
  if (call.scaling == RopeScaling::kNone) return plain;
  if (call.scaling == RopeScaling::kLinear) return plain / call.factor;
  const double turns = call.original_context * plain / (2.0 * std::numbers::pi);  // in the context
  if (turns < call.low_frequency_factor) return plain / call.factor;
  if (turns > call.high_frequency_factor) return plain;
  const double kept = (turns - call.low_frequency_factor) /
                      (call.high_frequency_factor - call.low_frequency_factor);
  return (1.0 - kept) * plain / call.factor + kept * plain;
}

struct TableArguments {
  const int32_t* positions;
  float* cos;
  float* sin;
  int64_t entries;
  uint32_t pairs;
  double frequencies[kRopeMaxHeadSize / 2];
};

// Mapping: one entry per thread. Bound: sine and cosine in double, about 100 instructions per
// entry; the table is computed once per step.
__global__ void __launch_bounds__(128) rope_table_kernel(const __grid_constant__ TableArguments p) {
  const int64_t entry = static_cast<int64_t>(blockIdx.x) * 128 + threadIdx.x;
  if (entry >= p.entries) return;
  const int64_t token = entry / p.pairs;
  const int32_t position = p.positions[token];
  const double angle = position < 0 ? 0.0 : position * p.frequencies[entry - token * p.pairs];
  double sine, cosine;
  sincos(angle, &sine, &cosine);
  p.cos[entry] = static_cast<float>(cosine);
  p.sin[entry] = static_cast<float>(sine);
}

}  // namespace

template <typename T>
cudaError_t launch_rope(const Rope<T>& call, cudaStream_t stream) {
  if (call.head_size % 2 != 0 || call.head_size < 0 || call.rotated_heads > call.heads)
    return cudaErrorInvalidValue;
  if (call.head_size == 0) return cudaSuccess;
  return call.pairs == RopePairs::kHalves ? launch_pairs<T, RopePairs::kHalves>(call, stream)
                                          : launch_pairs<T, RopePairs::kInterleaved>(call, stream);
}

cudaError_t launch_rope_table(const RopeTable& call, cudaStream_t stream) {
  if (call.head_size % 2 != 0 || call.head_size < 0 || call.head_size > kRopeMaxHeadSize ||
      call.tokens < 0)
    return cudaErrorInvalidValue;
  TableArguments p{call.positions,
                   call.cos,
                   call.sin,
                   call.tokens * (call.head_size / 2),
                   static_cast<uint32_t>(call.head_size / 2),
                   {}};
  if (p.entries == 0) return cudaSuccess;
  for (int64_t i = 0; i < p.pairs; ++i) p.frequencies[i] = frequency(call, i);
  rope_table_kernel<<<static_cast<unsigned>((p.entries + 127) / 128), 128, 0, stream>>>(p);
  return cudaGetLastError();
}

template cudaError_t launch_rope(const Rope<float>&, cudaStream_t);
template cudaError_t launch_rope(const Rope<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
