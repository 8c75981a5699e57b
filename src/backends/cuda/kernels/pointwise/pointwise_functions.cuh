// SPDX-License-Identifier: Apache-2.0
// The functions of the pointwise table (base/pointwise.h) on the device, in fp32.
#pragma once

#include "backends/cuda/kernels/gpu_dialect.cuh"
#include "base/pointwise.h"

namespace ridge::backends::cuda {

// (1 + tanh(u / 2)) / 2 = sigmoid(u): the tanh form of GELU is x sigmoid(u) with u = 2 sqrt(2/pi)
// (x + 0.044715 x^3).
__device__ __forceinline__ float gelu_argument(float x) {
  constexpr float kLinear = static_cast<float>(2.0 * kGeluTanhScale);
  constexpr float kCubic = static_cast<float>(2.0 * kGeluTanhScale * kGeluTanhCubic);
  return x * fmaf(x * x, kCubic, kLinear);
}
__device__ __forceinline__ float gelu_argument_slope(float x) {
  constexpr float kLinear = static_cast<float>(2.0 * kGeluTanhScale);
  constexpr float kCubic = static_cast<float>(6.0 * kGeluTanhScale * kGeluTanhCubic);
  return fmaf(x * x, kCubic, kLinear);
}

// NaN, which compares with nothing, stays NaN.
__device__ __forceinline__ float larger(float a, float b) { return a > b || a != a ? a : b; }
__device__ __forceinline__ float smaller(float a, float b) { return a < b || a != a ? a : b; }

// dy times the derivative of x sigmoid(u), with s = sigmoid(u).
__device__ __forceinline__ float gate_gradient(float x, float dy, float s, float argument_slope) {
  return dy * fmaf(x * s, (1.0f - s) * argument_slope, s);
}

// T is the storage type of the result: bf16 uses the faster exponentials.
template <Pointwise kFunction, typename T>
__device__ __forceinline__ float apply(float a, float b, float parameter) {
  if constexpr (kFunction == Pointwise::kAdd)
    return a + b;
  else if constexpr (kFunction == Pointwise::kSub)
    return a - b;
  else if constexpr (kFunction == Pointwise::kMul)
    return a * b;
  else if constexpr (kFunction == Pointwise::kDiv)
    return a / b;
  else if constexpr (kFunction == Pointwise::kNeg)
    return -a;
  else if constexpr (kFunction == Pointwise::kScale)
    return a * parameter;
  else if constexpr (kFunction == Pointwise::kAddScalar)
    return a + parameter;
  else if constexpr (kFunction == Pointwise::kSquare)
    return a * a;
  else if constexpr (kFunction == Pointwise::kExp)
    return exp_for<T>(a);
  else if constexpr (kFunction == Pointwise::kLog)
    return logf(a);
  else if constexpr (kFunction == Pointwise::kTanh)
    return tanhf(a);
  else if constexpr (kFunction == Pointwise::kSqrt)
    return sqrtf(a);
  else if constexpr (kFunction == Pointwise::kRsqrt)
    return rsqrtf(a);
  else if constexpr (kFunction == Pointwise::kReciprocal)
    return 1.0f / a;
  else if constexpr (kFunction == Pointwise::kSigmoid)
    return sigmoid_for<T>(a);
  else if constexpr (kFunction == Pointwise::kSin)
    return sinf(a);
  else if constexpr (kFunction == Pointwise::kCos)
    return cosf(a);
  else if constexpr (kFunction == Pointwise::kAbs)
    return fabsf(a);
  else if constexpr (kFunction == Pointwise::kRelu)
    return larger(a, 0.0f);
  else if constexpr (kFunction == Pointwise::kMax)
    return larger(a, b);
  else if constexpr (kFunction == Pointwise::kMin)
    return smaller(a, b);
  else if constexpr (kFunction == Pointwise::kStep)
    return a > 0.0f ? 1.0f : 0.0f;
  else if constexpr (kFunction == Pointwise::kSilu)
    return a * sigmoid_for<T>(a);
  else if constexpr (kFunction == Pointwise::kGeluTanh)
    return a * sigmoid_for<T>(gelu_argument(a));
  else if constexpr (kFunction == Pointwise::kSiluBackward)
    return gate_gradient(a, b, sigmoid_for<T>(a), 1.0f);
  else if constexpr (kFunction == Pointwise::kGeluTanhBackward)
    return gate_gradient(a, b, sigmoid_for<T>(gelu_argument(a)), gelu_argument_slope(a));
  else
    return a;  // kCast
}

constexpr bool takes_two(Pointwise function) {
  return function == Pointwise::kAdd || function == Pointwise::kSub ||
         function == Pointwise::kMul || function == Pointwise::kDiv ||
         function == Pointwise::kMax || function == Pointwise::kMin ||
         function == Pointwise::kSiluBackward || function == Pointwise::kGeluTanhBackward;
}

// Calls make(constant of the function), which turns a run-time choice into a template argument.
template <Pointwise kFunction>
struct PointwiseConstant {
  static constexpr Pointwise kValue = kFunction;
};

template <int kFirst = 0, typename Make>
__device__ __forceinline__ void with_pointwise(Pointwise function, const Make& make) {
  if (static_cast<int>(function) == kFirst) {
    make(PointwiseConstant<static_cast<Pointwise>(kFirst)>{});
  } else if constexpr (kFirst < static_cast<int>(Pointwise::kCast)) {
    with_pointwise<kFirst + 1>(function, make);
  }
}

// The same on the host.
template <int kFirst = 0, typename Make>
void choose_pointwise(Pointwise function, const Make& make) {
  if (static_cast<int>(function) == kFirst) {
    make(PointwiseConstant<static_cast<Pointwise>(kFirst)>{});
  } else if constexpr (kFirst < static_cast<int>(Pointwise::kCast)) {
    choose_pointwise<kFirst + 1>(function, make);
  }
}

}  // namespace ridge::backends::cuda
