// SPDX-License-Identifier: Apache-2.0
// Softmax and cross-entropy in one, and its gradient, on CPUs;
// backends/kernels/softmax_cross_entropy.h says what they compute.
#pragma once

#include "backends/cpu/kernels/index_check.h"
#include "backends/kernels/softmax_cross_entropy.h"

namespace ridge::backends::cpu {

int64_t softmax_cross_entropy_workspace_bytes(int64_t tokens);

// The rows' losses are summed in double in row order, so the result does not depend on the thread
// count. Returns kNoBadRow, or the first row with a label outside [-1, V); then nothing is written.
template <typename T>
int64_t softmax_cross_entropy(const SoftmaxCrossEntropy<T>& call);

// Returns as above.
template <typename T>
int64_t softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackward<T>& call);

}  // namespace ridge::backends::cpu
