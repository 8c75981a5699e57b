// SPDX-License-Identifier: Apache-2.0
// The list of CUDA bindings: one line an op. Pointwise ops share one binding.
#include <array>

#include "backends/cuda/cuda_kernel.h"
#include "base/pointwise.h"

#define RIDGE_CUDA_KERNELS(X)       \
  X(concat)                         \
  X(copy)                           \
  X(fill)                           \
  X(matmul)                         \
  X(matmul_group)                   \
  X(row_product)                    \
  X(reduce_sum)                     \
  X(softmax)                        \
  X(softmax_backward)               \
  X(causal_mask)                    \
  X(log_softmax)                    \
  X(log_softmax_backward)           \
  X(nll_loss)                       \
  X(nll_loss_backward)              \
  X(embedding)                      \
  X(embedding_backward)             \
  X(rope_table)                     \
  X(rope)                           \
  X(rope_qkv)                       \
  X(rope_qkv_backward)              \
  X(rms_norm)                       \
  X(rms_norm_backward)              \
  X(add_rms_norm)                   \
  X(glu)                            \
  X(glu_backward)                   \
  X(flash_attention)                \
  X(flash_attention_backward)       \
  X(kv_append)                      \
  X(rope_append)                    \
  X(cached_attention)               \
  X(append_attention)               \
  X(cached_scores)                  \
  X(cached_mask)                    \
  X(cached_mix)                     \
  X(sample)                         \
  X(softmax_cross_entropy)          \
  X(softmax_cross_entropy_backward) \
  X(accumulate)                     \
  X(zero)                           \
  X(sum_squares)                    \
  X(clip_coefficient)               \
  X(adamw)                          \
  X(adamw_multi)                    \
  X(generated_pointwise)

namespace ridge::backends::cuda {

const CudaKernel& pointwise_kernel();
#define RIDGE_DECLARE(name) const CudaKernel& name##_kernel();
RIDGE_CUDA_KERNELS(RIDGE_DECLARE)
#undef RIDGE_DECLARE

const CudaKernel* find_kernel(std::string_view op) {
#define RIDGE_LIST(name) &name##_kernel(),
  static const std::array kernels = {RIDGE_CUDA_KERNELS(RIDGE_LIST)};
#undef RIDGE_LIST
  if (parse_pointwise(op)) return &pointwise_kernel();
  for (const CudaKernel* kernel : kernels)
    if (kernel->op == op) return kernel;
  return nullptr;
}

}  // namespace ridge::backends::cuda
