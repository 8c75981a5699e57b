// SPDX-License-Identifier: Apache-2.0
// The mean negative log-likelihood of labels and its gradient on CPUs; backends/kernels/nll_loss.h
// says what they compute.
#pragma once

#include "backends/cpu/kernels/index_check.h"
#include "backends/kernels/nll_loss.h"

namespace ridge::backends::cpu {

// Summed in double in row order. Returns kNoBadRow, or the first row with a label outside [-1, V);
// then nothing is written.
template <typename T>
int64_t nll_loss(const NllLoss<T>& call);

// Returns as above.
template <typename T>
int64_t nll_loss_backward(const NllLossBackward<T>& call);

}  // namespace ridge::backends::cpu
