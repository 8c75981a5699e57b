// SPDX-License-Identifier: Apache-2.0
// Gradient of RMS norm for few rows: an entry point for rms_norm_backward.cu. The contract is that
// of rms_norm.h.
#pragma once

#include "backends/cuda/kernels/rms_norm/rms_norm.h"

namespace ridge::backends::cuda {

// Whether the extents are short and the operands are aligned for vectors. Needs neither workspace
// nor tickets.
template <typename T>
bool is_short(const Ticketed<RmsNormBackward<T>>& call);

template <typename T>
void launch_rms_norm_backward_short(const Ticketed<RmsNormBackward<T>>& call, cudaStream_t stream);

}  // namespace ridge::backends::cuda
