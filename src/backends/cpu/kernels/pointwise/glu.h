// SPDX-License-Identifier: Apache-2.0
// The gated activation of a feed-forward layer and its gradient on CPUs; backends/kernels/glu.h
// defines them.
#pragma once

#include "backends/kernels/glu.h"

namespace ridge::backends::cpu {

// With act(x) = x sigmoid(u), where u is x, or 2 sqrt(2/pi) (x + 0.044715 x^3) for GELU, the
// relative error of act in fp32 is within 6e-7 + 2e-7 |u| (rounding u costs an error proportional
// to |u|). Below u = -87, act is 0 or about 1e-36 in size.
template <typename T>
void glu(const Glu<T>& call);

// The same on the calling thread alone, for a task of another kernel.
void glu_on_thread(const Glu<float>& call);

template <typename T>
void glu_backward(const GluBackward<T>& call);

}  // namespace ridge::backends::cpu
