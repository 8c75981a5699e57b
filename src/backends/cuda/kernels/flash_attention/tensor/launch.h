// SPDX-License-Identifier: Apache-2.0
// Entry points of flash attention on mma.sync, for the dispatch. The contract is that of
// flash_attention.h, for head sizes up to 128; fp32 operands are multiplied in TF32.
#pragma once

#include "backends/cuda/kernels/flash_attention/visibility.h"

namespace ridge::backends::cuda {

cudaError_t launch_flash_attention_forward_tensor(const AttentionExtents& extents,
                                                  DType dtype,
                                                  const AttentionInput& q,
                                                  const AttentionInput& k,
                                                  const AttentionInput& v,
                                                  const AttentionOutput& o,
                                                  float* lse,
                                                  cudaStream_t stream);
cudaError_t launch_flash_attention_backward_tensor(const AttentionExtents& extents,
                                                   DType dtype,
                                                   const AttentionBackward& operands,
                                                   cudaStream_t stream);
int64_t flash_attention_forward_tensor_pairs(const AttentionExtents& extents);
AttentionPairs flash_attention_backward_tensor_pairs(const AttentionExtents& extents);

}  // namespace ridge::backends::cuda
