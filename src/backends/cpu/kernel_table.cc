// SPDX-License-Identifier: Apache-2.0
// The list of CPU bindings: one line an op. Pointwise ops share one binding.
#include <algorithm>
#include <array>

#include "backends/cpu/cpu_kernel.h"
#include "base/pointwise.h"

#define RIDGE_CPU_KERNELS(X)        \
  X(concat)                         \
  X(copy)                           \
  X(fill)                           \
  X(matmul)                         \
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
  X(softmax_cross_entropy)          \
  X(softmax_cross_entropy_backward) \
  X(accumulate)                     \
  X(zero)                           \
  X(sum_squares)                    \
  X(clip_coefficient)               \
  X(adamw)                          \
  X(adamw_multi)                 \
  X(generated_pointwise)

namespace ridge::backends::cpu {

const CpuKernel& pointwise_kernel();
#define RIDGE_DECLARE(name) const CpuKernel& name##_kernel();
RIDGE_CPU_KERNELS(RIDGE_DECLARE)
#undef RIDGE_DECLARE

const CpuKernel* find_kernel(std::string_view op) {
#define RIDGE_LIST(name) &name##_kernel(),
  static const std::array kernels = {RIDGE_CPU_KERNELS(RIDGE_LIST)};
#undef RIDGE_LIST
  if (parse_pointwise(op)) return &pointwise_kernel();
  for (const CpuKernel* kernel : kernels)
    if (kernel->op == op) return kernel;
  return nullptr;
}

std::optional<int64_t> row_stride(const Shape& shape, const Layout& layout) {
  int rank = shape.rank();
  if (rank == 0) return 1;
  if (shape.back() != 1 && layout.strides[rank - 1] != 1) return std::nullopt;
  int64_t stride = shape.back();  // of a single row: any
  int64_t count = 1;
  for (int axis = rank - 2; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (count == 1) stride = layout.strides[axis];
    else if (layout.strides[axis] != stride * count) return std::nullopt;
    count *= std::max<int64_t>(shape[axis], 1);  // as dense_strides
  }
  return stride;
}

bool lies_in_rows(const Call& call, int input, const Layout& layout) {
  return row_stride(call.inputs[static_cast<size_t>(input)].shape, layout).has_value();
}

bool output_lies_in_rows(const Call& call, int output, const Layout& layout) {
  return row_stride(call.outputs[static_cast<size_t>(output)].shape, layout).has_value();
}

int64_t row_stride(const Operand& operand) { return row_stride(operand.type.shape, {0, operand.strides}).value(); }

}  // namespace ridge::backends::cpu
