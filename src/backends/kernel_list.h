// SPDX-License-Identifier: Apache-2.0
// The list of ops that every device's backend binds, one line an op, and how a backend's list is
// searched. What only one backend binds stands in its own kernel_table.cc.
#pragma once

#include <array>
#include <string_view>

#include "base/pointwise.h"

#define RIDGE_KERNELS(X)            \
  X(concat)                         \
  X(copy)                           \
  X(fill)                           \
  X(matmul)                         \
  X(matmul_group)                   \
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
  X(cached_attention)               \
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

namespace ridge::backends {

// The entry of an op, or null. Pointwise ops share one.
template <typename Kernel, size_t kCount>
const Kernel* find_kernel(const std::array<const Kernel*, kCount>& kernels,
                          const Kernel& pointwise,
                          std::string_view op) {
  if (parse_pointwise(op)) return &pointwise;
  for (const Kernel* kernel : kernels)
    if (kernel->op == op) return kernel;
  return nullptr;
}

}  // namespace ridge::backends
