// SPDX-License-Identifier: Apache-2.0
// The losses and their gradients on CPUs; backends/kernels/losses.h defines them.
#pragma once

#include "backends/cpu/kernels/index_check.h"
#include "backends/kernels/losses.h"

namespace ridge::backends::cpu {

int64_t softmax_cross_entropy_workspace_bytes(int64_t tokens);

// The rows' losses are summed in double in row order, so the result does not depend on the thread
// count. Returns kNoBadRow, or the first row with a label outside [-1, V); in that case nothing is
// written.
template <typename T>
int64_t softmax_cross_entropy(const SoftmaxCrossEntropy<T>& call);

// Returns the same as the forward kernel.
template <typename T>
int64_t softmax_cross_entropy_backward(const SoftmaxCrossEntropyBackward<T>& call);

// Summed in double in row order. Returns kNoBadRow, or the first row with a label outside [-1, V);
// in that case nothing is written.
template <typename T>
int64_t nll_loss(const NllLoss<T>& call);

// Returns the same as the forward kernel.
template <typename T>
int64_t nll_loss_backward(const NllLossBackward<T>& call);

}  // namespace ridge::backends::cpu
