// SPDX-License-Identifier: Apache-2.0
// RMS norm on CPUs, alone or with the residual add before it, and its gradient;
// backends/kernels/rms_norm.h says what they compute.
#pragma once

#include "backends/kernels/rms_norm.h"

namespace ridge::backends::cpu {

template <typename T>
void rms_norm(const RmsNorm<T>& call);

template <typename T>
void add_rms_norm(const AddRmsNorm<T>& call);

// Of this process's present OpenMP thread count; the kernel must run with the same.
int64_t rms_norm_backward_workspace_bytes(int64_t tokens, int64_t width);

// dx may be dy too.
template <typename T>
void rms_norm_backward(const RmsNormBackward<T>& call);

}  // namespace ridge::backends::cpu
