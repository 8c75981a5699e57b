// SPDX-License-Identifier: Apache-2.0
// log_softmax and its gradient on CPUs; backends/kernels/log_softmax.h says what they compute.
#pragma once

#include "backends/kernels/log_softmax.h"

namespace ridge::backends::cpu {

template <typename T>
void log_softmax(const LogSoftmax<T>& call);

template <typename T>
void log_softmax_backward(const LogSoftmaxBackward<T>& call);

}  // namespace ridge::backends::cpu
