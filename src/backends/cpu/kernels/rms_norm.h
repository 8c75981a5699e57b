// SPDX-License-Identifier: Apache-2.0
// RMSNorm on CPUs, alone or with the residual add before it, and its gradient;
// backends/kernels/rms_norm.h defines them.
#pragma once

#include "backends/kernels/rms_norm.h"

namespace ridge::backends::cpu {

template <typename T>
void rms_norm(const RmsNorm<T>& call);

template <typename T>
void add_rms_norm(const AddRmsNorm<T>& call);

// For the current number of OpenMP threads; the kernel must run with the same number.
int64_t rms_norm_backward_workspace_bytes(int64_t tokens, int64_t width);

// dx may also alias dy.
template <typename T>
void rms_norm_backward(const RmsNormBackward<T>& call);

}  // namespace ridge::backends::cpu
