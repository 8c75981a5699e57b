// SPDX-License-Identifier: Apache-2.0
// Gated activations. Both are x sigmoid(u): SiLU with u = x, the tanh form of GELU with
// u = 2 sqrt(2/pi) (x + 0.044715 x^3), since (1 + tanh(u / 2)) / 2 = sigmoid(u).
#include "backends/cuda/kernels/pointwise/glu.h"

#include "backends/cuda/kernels/map_rows.cuh"

namespace ridge::backends::cuda {
namespace {

constexpr float kGeluLinear = 1.5957691216057308f;  // 2 sqrt(2 / pi)
constexpr float kGeluCubic = 0.044715f;

struct Silu {
  static __device__ __forceinline__ float argument(float x) { return x; }
  static __device__ __forceinline__ float slope(float) { return 1.0f; }  // du / dx
};

struct GeluTanh {
  static __device__ __forceinline__ float argument(float x) {
    return x * fmaf(x * x, kGeluLinear * kGeluCubic, kGeluLinear);
  }
  static __device__ __forceinline__ float slope(float x) {
    return fmaf(x * x, 3.0f * kGeluLinear * kGeluCubic, kGeluLinear);
  }
};

// Bound: memory, 3 N F sizeof(T).
template <typename Activation, typename T, int kCount>
struct GluBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {
    Packed<T, kCount> gate, up;
  };
  StridedRows<const T> gate, up;
  StridedRows<T> y;

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    item.gate = load_packed<kCount>(gate[at.row] + at.column);
    item.up = load_packed<kCount>(up[at.row] + at.column);
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace at) const {
    float x[kCount], factor[kCount];
    unpack(item.gate, x);
    unpack(item.up, factor);
#pragma unroll
    for (int i = 0; i < kCount; ++i)
      x[i] = x[i] * sigmoid_for<T>(Activation::argument(x[i])) * factor[i];
    store_floats(y[at.row] + at.column, x);
  }
};

// With s = sigmoid(u): act = x s, act' = s + x s (1 - s) du/dx. Bound: memory, 5 N F sizeof(T).
template <typename Activation, typename T, int kCount>
struct GluBackwardBody {
  static constexpr int kVector = kCount;
  struct LoadedVectors {
    Packed<T, kCount> dy, gate, up;
  };
  StridedRows<const T> dy, gate, up;
  StridedRows<T> d_gate, d_up;

  __device__ __forceinline__ void load(LoadedVectors& item, MapPlace at) const {
    item.dy = load_packed<kCount>(dy[at.row] + at.column);
    item.gate = load_packed<kCount>(gate[at.row] + at.column);
    item.up = load_packed<kCount>(up[at.row] + at.column);
  }
  __device__ __forceinline__ void finish(const LoadedVectors& item, MapPlace at) const {
    float given[kCount], x[kCount], factor[kCount];
    unpack(item.dy, given);
    unpack(item.gate, x);
    unpack(item.up, factor);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      const float s = sigmoid_for<T>(Activation::argument(x[i]));
      const float active = x[i] * s;
      const float slope = fmaf(active, (1.0f - s) * Activation::slope(x[i]), s);
      x[i] = given[i] * factor[i] * slope;
      factor[i] = given[i] * active;
    }
    store_floats(d_gate[at.row] + at.column, x);
    store_floats(d_up[at.row] + at.column, factor);
  }
};

template <typename Activation, typename T>
cudaError_t launch_forward(const Glu<T>& call, cudaStream_t stream) {
  const MapExtents extents =
      joined_rows(call.tokens, call.width, {call.gate.stride, call.up.stride, call.y.stride});
  constexpr int kCount = kVectorOf<T>;
  const bool vectors = extents.width % kCount == 0 && takes_vectors<kCount>(call.gate) &&
                       takes_vectors<kCount>(call.up) && takes_vectors<kCount>(call.y);
  if (vectors) {
    return launch_map_rows(GluBody<Activation, T, kCount>{call.gate, call.up, call.y}, extents.rows,
                           extents.width, stream);
  }
  return launch_map_rows(GluBody<Activation, T, 1>{call.gate, call.up, call.y}, extents.rows,
                         extents.width, stream);
}

template <typename Activation, typename T>
cudaError_t launch_backward(const GluBackward<T>& call, cudaStream_t stream) {
  const MapExtents extents = joined_rows(
      call.tokens, call.width,
      {call.dy.stride, call.gate.stride, call.up.stride, call.d_gate.stride, call.d_up.stride});
  constexpr int kCount = kVectorOf<T>;
  const bool vectors = extents.width % kCount == 0 && takes_vectors<kCount>(call.dy) &&
                       takes_vectors<kCount>(call.gate) && takes_vectors<kCount>(call.up) &&
                       takes_vectors<kCount>(call.d_gate) && takes_vectors<kCount>(call.d_up);
  if (vectors) {
    const GluBackwardBody<Activation, T, kCount> body{call.dy, call.gate, call.up, call.d_gate,
                                                      call.d_up};
    return launch_map_rows<decltype(body), 2>(body, extents.rows, extents.width, stream);
  }
  const GluBackwardBody<Activation, T, 1> body{call.dy, call.gate, call.up, call.d_gate, call.d_up};
  return launch_map_rows(body, extents.rows, extents.width, stream);
}

}  // namespace

template <typename T>
cudaError_t launch_glu(const Glu<T>& call, cudaStream_t stream) {
  return call.activation == GluActivation::kSilu ? launch_forward<Silu>(call, stream)
                                                 : launch_forward<GeluTanh>(call, stream);
}

template <typename T>
cudaError_t launch_glu_backward(const GluBackward<T>& call, cudaStream_t stream) {
  return call.activation == GluActivation::kSilu ? launch_backward<Silu>(call, stream)
                                                 : launch_backward<GeluTanh>(call, stream);
}

template cudaError_t launch_glu(const Glu<float>&, cudaStream_t);
template cudaError_t launch_glu(const Glu<uint16_t>&, cudaStream_t);
template cudaError_t launch_glu_backward(const GluBackward<float>&, cudaStream_t);
template cudaError_t launch_glu_backward(const GluBackward<uint16_t>&, cudaStream_t);

}  // namespace ridge::backends::cuda
