// SPDX-License-Identifier: Apache-2.0
// Entry points of the portable flash attention, for the dispatch and for tests that compare it with
// the Hopper kernels. The contract is that of flash_attention.h.
#pragma once

#include "backends/cuda/kernels/flash_attention/visibility.h"

namespace ridge::backends::cuda {

cudaError_t launch_flash_attention_forward_portable(const AttentionExtents& extents,
                                                    DType dtype,
                                                    const AttentionInput& q,
                                                    const AttentionInput& k,
                                                    const AttentionInput& v,
                                                    const AttentionOutput& o,
                                                    float* lse,
                                                    cudaStream_t stream);
cudaError_t launch_flash_attention_backward_portable(const AttentionExtents& extents,
                                                     DType dtype,
                                                     const AttentionBackward& operands,
                                                     cudaStream_t stream);
int64_t flash_attention_forward_portable_pairs(const AttentionExtents& extents);
AttentionPairs flash_attention_backward_portable_pairs(const AttentionExtents& extents);

}  // namespace ridge::backends::cuda
