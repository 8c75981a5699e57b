// SPDX-License-Identifier: Apache-2.0
// Arguments of the glu kernels: the gated activation of a feed-forward layer, and its gradient
// (Shazeer 2020). T is float, uint16_t (bf16) or Float16. gate and up may be slices of one merged
// projection.
#pragma once

#include <cstdint>
#include <string_view>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends {

enum class GluActivation : uint8_t {
  kSilu,      // x / (1 + exp(-x))
  kGeluTanh,  // x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) / 2
};

// By the name of an op's attribute; throws an InternalError for any but silu and gelu_tanh.
GluActivation glu_activation(std::string_view name);

// y = act(gate) up.
template <typename T>
struct Glu {
  int64_t tokens = 0;  // N
  int64_t width = 0;   // F
  GluActivation activation = GluActivation::kSilu;
  StridedRows<const T> gate;  // [N, F]
  StridedRows<const T> up;    // [N, F]
  StridedRows<T> y;           // [N, F]; may be gate or up
};

template <typename T>
struct GluBackward {
  int64_t tokens = 0;  // N
  int64_t width = 0;   // F
  GluActivation activation = GluActivation::kSilu;
  StridedRows<const T> dy;    // [N, F]
  StridedRows<const T> gate;  // [N, F]
  StridedRows<const T> up;    // [N, F]
  StridedRows<T> d_gate;      // [N, F]; may be any of the inputs
  StridedRows<T> d_up;        // [N, F]; may be any of the inputs
};

}  // namespace ridge::backends
