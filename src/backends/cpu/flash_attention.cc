// SPDX-License-Identifier: Apache-2.0
// Bindings of flash_attention and flash_attention_backward.
#include "backends/cpu/kernels/flash_attention/flash_attention.h"

#include <omp.h>

#include "backends/cpu/kernel_table.h"
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

Launch bind(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return [e = extents(call.call(), 0), q = token_heads<const T>(call.inputs[0]),
            k = token_heads<const T>(call.inputs[1]), v = token_heads<const T>(call.inputs[2]),
            o = token_heads<T>(call.outputs[0]), lse = call.outputs[1].as<float>(),
            workspace = call.workspace, threads = omp_get_max_threads()] {
      flash_attention_forward(e, q, k, v, o, lse, workspace, threads);
    };
  });
}

// Inputs do, q, k, v, o, lse.
Launch bind_backward(const BindCall& call) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return [e = extents(call.call(), 1), d_o = token_heads<const T>(call.inputs[0]),
            q = token_heads<const T>(call.inputs[1]), k = token_heads<const T>(call.inputs[2]),
            v = token_heads<const T>(call.inputs[3]), o = token_heads<const T>(call.inputs[4]),
            lse = call.inputs[5].as<const float>(), d_q = token_heads<T>(call.outputs[0]),
            d_k = token_heads<T>(call.outputs[1]), d_v = token_heads<T>(call.outputs[2]),
            workspace = call.workspace, threads = omp_get_max_threads()] {
      flash_attention_backward(e, q, k, v, o, lse, d_o, d_q, d_k, d_v, workspace, threads);
    };
  });
}

bool takes_input(const Call& call, int input, const Layout& layout) {
  return lies_in_heads(call.inputs[static_cast<size_t>(input)].shape, layout);
}
int64_t workspace(const Call& call) {
  return flash_attention_forward_workspace_bytes(extents(call, 0), omp_get_max_threads());
}
int64_t workspace_backward(const Call& call) {
  return flash_attention_backward_workspace_bytes(extents(call, 1), omp_get_max_threads());
}

std::string unsupported_head(int64_t head_size) {
  if (head_size % 8 == 0 && head_size <= kMaxHeadSize) return "";
  return fmt::format("expected a head size that is a multiple of 8 up to {}, got {}", kMaxHeadSize,
                     head_size);
}
std::string unsupported(const Call& call) { return unsupported_head(call.inputs[1].shape[2]); }

}  // namespace

Kernel flash_attention_kernel() {
  return {.op = "flash_attention",
          .bind = bind,
          .takes_input = takes_input,
          .takes_output = output_lies_in_heads,
          .workspace_bytes = workspace,
          .unsupported = unsupported};
}

Kernel flash_attention_backward_kernel() {
  return {.op = "flash_attention_backward",
          .bind = bind_backward,
          .takes_input = takes_input,
          .takes_output = output_lies_in_heads,
          .workspace_bytes = workspace_backward,
          .unsupported = unsupported};
}

}  // namespace ridge::backends::cpu
