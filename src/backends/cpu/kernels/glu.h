// SPDX-License-Identifier: Apache-2.0
// The gate of a gated feed-forward layer: y = act(gate) up, and its gradient. (Shazeer 2020.)
// T is float or uint16_t (bf16). gate and up may be slices of one merged projection.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/rows.h"

namespace ridge::backends::cpu {

enum class GluActivation : uint8_t {
  kSilu,      // x / (1 + exp(-x))
  kGeluTanh,  // x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
};

template <typename T>
struct Glu {
  int64_t tokens = 0;  // N
  int64_t width = 0;   // F
  GluActivation activation = GluActivation::kSilu;
  Rows<const T> gate;  // [N, F]
  Rows<const T> up;    // [N, F]
  Rows<T> y;           // [N, F]; may be gate or up
};

// With act(x) = x sigmoid(u), where u is x, or 2 sqrt(2/pi) (x + 0.044715 x^3) for GELU, act's
// relative error in fp32 is within 6e-7 + 2e-7 |u| (u is rounded at its own size); below u = -87
// act is 0 or of the size of 1e-36.
template <typename T>
void glu(const Glu<T>& call);

template <typename T>
struct GluBackward {
  int64_t tokens = 0;  // N
  int64_t width = 0;   // F
  GluActivation activation = GluActivation::kSilu;
  Rows<const T> dy;    // [N, F]
  Rows<const T> gate;  // [N, F]
  Rows<const T> up;    // [N, F]
  Rows<T> d_gate;      // [N, F]; may be any of the inputs
  Rows<T> d_up;        // [N, F]; may be any of the inputs
};

template <typename T>
void glu_backward(const GluBackward<T>& call);

}  // namespace ridge::backends::cpu
