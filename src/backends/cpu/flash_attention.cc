// SPDX-License-Identifier: Apache-2.0
// Bindings of flash_attention and flash_attention_backward.
#include "backends/cpu/kernels/flash_attention/flash_attention.h"

#include <omp.h>

#include "backends/cpu/kernel_table.h"
#include "backends/cpu/on_cpu.h"
#include "backends/row_layout.h"
#include "base/error.h"
#include "ops/attention.h"

namespace ridge::backends::cpu {
namespace {

AttentionExtents extents(const Call& call, size_t first_input) {
  ops::AttentionShape s = ops::attention_shape("flash_attention", call, first_input);
  return {s.batch,     s.sequence, s.heads,  s.kv_heads,
          s.head_size, s.causal,   s.window, static_cast<float>(s.scale)};
}

const int32_t* positions(const BindCall& call, int index) {
  if (std::ssize(call.inputs) <= index) return nullptr;
  return call.inputs[static_cast<size_t>(index)].as<const int32_t>();
}

constexpr auto forward_call = []<typename T>(const BindCall& call) -> FlashAttention<T> {
  return {extents(call.call(), 0),
          token_heads<const T>(call.inputs[0]),
          token_heads<const T>(call.inputs[1]),
          token_heads<const T>(call.inputs[2]),
          token_heads<T>(call.outputs[0]),
          call.outputs[1].as<float>(),
          reinterpret_cast<float*>(call.workspace),
          omp_get_max_threads(),
          positions(call, ops::kForwardPositions)};
};

// The inputs are do, q, k, v, o and lse.
constexpr auto backward_call = []<typename T>(const BindCall& call) -> FlashAttentionBackward<T> {
  FlashAttentionBackward<T> b;
  b.extents = extents(call.call(), 1);
  b.d_o = token_heads<const T>(call.inputs[0]);
  b.q = token_heads<const T>(call.inputs[1]);
  b.k = token_heads<const T>(call.inputs[2]);
  b.v = token_heads<const T>(call.inputs[3]);
  b.o = token_heads<const T>(call.inputs[4]);
  b.lse = call.inputs[5].as<const float>();
  b.d_q = token_heads<T>(call.outputs[0]);
  b.d_k = token_heads<T>(call.outputs[1]);
  b.d_v = token_heads<T>(call.outputs[2]);
  b.workspace = reinterpret_cast<float*>(call.workspace);
  b.threads = omp_get_max_threads();
  b.positions = positions(call, ops::kBackwardPositions);
  return b;
};

bool takes_input(const Call& call, int input, const Layout& layout) {
  return lies_in_heads(call.inputs[static_cast<size_t>(input)].shape, layout);
}
int64_t workspace(const Call& call) {
  return flash_attention_forward_workspace_bytes(extents(call, 0), omp_get_max_threads());
}
int64_t workspace_backward(const Call& call) {
  return flash_attention_backward_workspace_bytes(extents(call, 1), omp_get_max_threads());
}

std::string unsupported(const Call& call) {
  const int64_t head_size = call.inputs[1].shape[2];
  if (head_size % 8 == 0 && head_size <= kMaxHeadSize) return "";
  return fmt::format("expected a head size that is a multiple of 8 up to {}, got {}", kMaxHeadSize,
                     head_size);
}

}  // namespace

Kernel flash_attention_kernel() {
  return {.op = "flash_attention",
          .bind = bind_typed(on_cpu<FlashAttention>(RIDGE_KERNELS(flash_attention_forward)),
                             forward_call),
          .takes_input = takes_input,
          .takes_output = output_lies_in_heads,
          .workspace_bytes = workspace,
          .unsupported = unsupported};
}

Kernel flash_attention_backward_kernel() {
  return {
      .op = "flash_attention_backward",
      .bind = bind_typed(on_cpu<FlashAttentionBackward>(RIDGE_KERNELS(flash_attention_backward)),
                         backward_call),
      .takes_input = takes_input,
      .takes_output = output_lies_in_heads,
      .workspace_bytes = workspace_backward,
      .unsupported = unsupported};
}

}  // namespace ridge::backends::cpu
