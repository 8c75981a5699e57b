// SPDX-License-Identifier: Apache-2.0
// Softmax, log_softmax and their gradients on CPUs; backends/kernels/softmax.h defines them.
#pragma once

#include "backends/kernels/softmax.h"

namespace ridge::backends::cpu {

// Throws InternalError unless scale > 0. Masked columns are not read.
template <typename T>
void softmax(const Softmax<T>& call);

template <typename T>
void softmax_backward(const SoftmaxBackward<T>& call);

template <typename T>
void log_softmax(const LogSoftmax<T>& call);

template <typename T>
void log_softmax_backward(const LogSoftmaxBackward<T>& call);

}  // namespace ridge::backends::cpu
