// SPDX-License-Identifier: Apache-2.0
// The gate of a gated feed-forward layer and its gradient
// on CPUs; backends/kernels/glu.h says what they compute.
#pragma once

#include "backends/kernels/glu.h"

namespace ridge::backends::cpu {

// With act(x) = x sigmoid(u), where u is x, or 2 sqrt(2/pi) (x + 0.044715 x^3) for GELU, act's
// relative error in fp32 is within 6e-7 + 2e-7 |u| (u is rounded at its own size); below u = -87
// act is 0 or of the size of 1e-36.
template <typename T>
void glu(const Glu<T>& call);

template <typename T>
void glu_backward(const GluBackward<T>& call);

}  // namespace ridge::backends::cpu
