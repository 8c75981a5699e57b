// SPDX-License-Identifier: Apache-2.0
// The explicit ordered list of all ops, one per line, and a function for each op. A node points to
// its op. Pointwise ops come from the table in base/pointwise.h (ops/pointwise.h).
#pragma once

#include "graph/op.h"

#define RIDGE_OPS(X)                \
  X(reshape)                        \
  X(slice)                          \
  X(transpose)                      \
  X(broadcast)                      \
  X(concat)                         \
  X(copy)                           \
  X(transpose_multi)                \
  X(fill)                           \
  X(matmul)                         \
  X(einsum)                         \
  X(rearrange)                      \
  X(quantized_matmul)               \
  X(skinny_gemm)                    \
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
  X(attention)                      \
  X(flash_attention)                \
  X(flash_attention_backward)       \
  X(kv_append)                      \
  X(rope_append)                    \
  X(cached_attention)               \
  X(append_attention)               \
  X(cached_scores)                  \
  X(cached_mask)                    \
  X(cached_softmax)                 \
  X(cached_mix)                     \
  X(sample)                         \
  X(softmax_cross_entropy)          \
  X(softmax_cross_entropy_backward) \
  X(cross_entropy_part)             \
  X(cross_entropy_of_parts)         \
  X(accumulate)                     \
  X(zero)                           \
  X(sum_squares)                    \
  X(clip_coefficient)               \
  X(loss_scale)                     \
  X(adamw)                          \
  X(adamw_multi)                    \
  X(all_reduce)                     \
  X(all_reduce_gradient)            \
  X(all_reduce_add_rms_norm)        \
  X(all_gather)                     \
  X(reduce_scatter)                 \
  X(send)                           \
  X(receive)                        \
  X(generated_pointwise)

namespace ridge::ops {

#define RIDGE_DECLARE_OP(name) const Op& name##_op();
RIDGE_OPS(RIDGE_DECLARE_OP)
#undef RIDGE_DECLARE_OP

const OpTable& table();
// Appends an op to the table. The program does so at its start, before the first call of table().
void add_op(const Op& op);

}  // namespace ridge::ops
