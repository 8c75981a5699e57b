// SPDX-License-Identifier: Apache-2.0
// Softmax and its gradient on CPUs; backends/kernels/softmax.h says what they compute.
#pragma once

#include "backends/kernels/softmax.h"

namespace ridge::backends::cpu {

// Throws InternalError unless scale > 0. Columns that are not seen are not read.
template <typename T>
void softmax(const Softmax<T>& call);

template <typename T>
void softmax_backward(const SoftmaxBackward<T>& call);

}  // namespace ridge::backends::cpu
