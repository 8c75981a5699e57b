// SPDX-License-Identifier: Apache-2.0
// Bindings of flash_attention and flash_attention_backward.
#include "backends/cuda/kernels/flash_attention/flash_attention.h"

#include "backends/cuda/flash_pairs.h"
#include "backends/cuda/kernel_table.h"
#include "base/error.h"
#include "ops/attention.h"

namespace ridge::backends::cuda {
namespace {

constexpr int64_t kMaxHeadSize = 256;
constexpr int64_t kVectorBytes = 16;
constexpr int64_t kWorkspaceAlignment = 256;
// The backward pass may store the gradient of the scores for a separate product, which is faster.
// It uses at most this much memory.
constexpr int64_t kSpillLimitBytes = int64_t{256} << 20;

AttentionExtents extents(const Call& call, size_t first_input, bool tf32) {
  ops::AttentionShape s = ops::attention_shape("flash_attention", call, first_input);
  AttentionExtents e{s.batch, s.sequence, s.heads, s.kv_heads, s.head_size, s.causal, s.window};
  e.scale = static_cast<float>(s.scale);
  e.tf32 = tf32;
  return e;
}

// Head size 256 has no kernel that stores the gradient of the scores.
AttentionGradient gradient_form(const AttentionExtents& e) {
  return e.head_size > 128 ? AttentionGradient::kRecompute : AttentionGradient::kSpill;
}

// An axis of one element may have any stride; the dense stride is a multiple of a vector.
Strides vector_strides(const Shape& shape, const Strides& strides) {
  Strides dense = dense_strides(shape);
  return {shape[0] == 1 ? dense[0] : strides[0], shape[1] == 1 ? dense[1] : strides[1], 1};
}

AttentionInput input(const Operand& o) {
  Strides strides = vector_strides(o.type.shape, o.strides);
  return {o.data, strides[0], strides[1]};
}
AttentionOutput output(const Operand& o) {
  Strides strides = vector_strides(o.type.shape, o.strides);
  return {o.data, strides[0], strides[1]};
}

std::byte* aligned(std::byte* workspace) {
  uintptr_t address = reinterpret_cast<uintptr_t>(workspace);
  return workspace +
         (static_cast<uintptr_t>(round_up(static_cast<int64_t>(address), kWorkspaceAlignment)) -
          address);
}

// Null without documents.
const int32_t* positions(const BindCall& call, int input) {
  return ops::document_positions(call.call(), input) < 0
             ? nullptr
             : call.inputs[static_cast<size_t>(input)].as<const int32_t>();
}

Launch bind(const BindCall& call, BindContext& context) {
  AttentionExtents e = extents(call.call(), 0, context.tf32);
  e.positions = positions(call, ops::kForwardPositions);
  DType dtype = call.inputs[0].type.dtype;
  int64_t bytes = flash_attention_forward_workspace_bytes(e, dtype);
  return [e, dtype, q = input(call.inputs[0]), k = input(call.inputs[1]), v = input(call.inputs[2]),
          o = output(call.outputs[0]), lse = call.outputs[1].as<float>(),
          workspace = aligned(call.workspace), bytes, &device = context.device] {
    check(launch_flash_attention_forward(e, dtype, q, k, v, o, lse, workspace, bytes,
                                         device.stream()),
          "flash_attention");
  };
}

// The inputs are do, q, k, v, o and lse.
Launch bind_backward(const BindCall& call, BindContext& context) {
  AttentionExtents e = extents(call.call(), 1, context.tf32);
  e.positions = positions(call, ops::kBackwardPositions);
  DType dtype = call.inputs[0].type.dtype;
  AttentionBackward b;
  b.d_o = input(call.inputs[0]);
  b.q = input(call.inputs[1]);
  b.k = input(call.inputs[2]);
  b.v = input(call.inputs[3]);
  b.o = input(call.inputs[4]);
  b.lse = call.inputs[5].as<const float>();
  b.dq = output(call.outputs[0]);
  b.dk = output(call.outputs[1]);
  b.dv = output(call.outputs[2]);
  int64_t bytes =
      flash_attention_backward_workspace_bytes(e, dtype, gradient_form(e), kSpillLimitBytes);
  return [e, dtype, b, workspace = aligned(call.workspace), bytes, &device = context.device] {
    check(launch_flash_attention_backward(e, dtype, b, gradient_form(e), workspace, bytes,
                                          device.stream()),
          "flash_attention_backward");
  };
}

// Kernels read and copy vectors of 16 bytes.
bool lies_in_vectors(const Type& type, const Layout& layout) {
  if (!lies_in_heads(type.shape, layout)) return false;
  int64_t elements = kVectorBytes / storage_bytes(type.dtype, 1);
  Strides strides = vector_strides(type.shape, layout.strides);
  return layout.offset % elements == 0 && strides[0] % elements == 0 &&
         strides[1] % elements == 0 && strides[0] > 0 && strides[1] > 0;
}
bool takes_input(const Call& call, int input, const Layout& layout) {
  return lies_in_vectors(call.inputs[static_cast<size_t>(input)], layout);
}
bool takes_output(const Call& call, int output, const Layout& layout) {
  return lies_in_vectors(call.outputs[static_cast<size_t>(output)], layout);
}

// Assumes TF32: its workspace is never smaller than that of fp32 arithmetic.
int64_t workspace(const Call& call) {
  int64_t bytes =
      flash_attention_forward_workspace_bytes(extents(call, 0, true), call.inputs[0].dtype);
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}
int64_t workspace_backward(const Call& call) {
  AttentionExtents e = extents(call, 1, true);
  int64_t bytes = flash_attention_backward_workspace_bytes(e, call.inputs[0].dtype,
                                                           gradient_form(e), kSpillLimitBytes);
  return bytes == 0 ? 0 : bytes + kWorkspaceAlignment;
}

int launches_backward(const Call& call, bool tf32) {
  AttentionExtents e = extents(call, 1, tf32);
  return flash_attention_backward_launches(e, call.inputs[0].dtype, gradient_form(e));
}

std::string unsupported(const Call& call) {
  int64_t head_size = call.inputs[1].shape[2];
  for (const Type& type : call.inputs)
    if (type.shape.elements() == 0) return "expected at least one element, got " + type.str();
  if (head_size % 8 == 0 && head_size <= kMaxHeadSize) return "";
  return fmt::format("expected a head size that is a multiple of 8 up to {}, got {}", kMaxHeadSize,
                     head_size);
}

}  // namespace

plan::FlashScores flash_scores(const Call& attention, bool tf32) {
  AttentionExtents e = extents(attention, 0, tf32);
  DType dtype = attention.inputs[0].dtype;
  int64_t heads = std::max<int64_t>(e.batch * e.heads, 1);
  AttentionPairs backward = flash_attention_backward_pairs(e, dtype, gradient_form(e));
  // All others compute the scores again for dQ.
  bool spills = flash_attention_backward_kernels(e, dtype) == AttentionKernels::kHopper &&
                gradient_form(e) == AttentionGradient::kSpill;
  return {flash_attention_forward_pairs(e, dtype) / heads, backward.key_pass / heads,
          spills ? 0 : backward.query_pass / heads};
}

Kernel flash_attention_kernel(BindContext& context) {
  return {.op = "flash_attention",
          .bind = in_context(bind, context),
          .takes_input = takes_input,
          .takes_output = takes_output,
          .vector_bytes = kVectorBytes,
          .workspace_bytes = workspace,
          .unsupported = unsupported,
          .rounds = 5};
}

Kernel flash_attention_backward_kernel(BindContext& context) {
  return {
      .op = "flash_attention_backward",
      .bind = in_context(bind_backward, context),
      .takes_input = takes_input,
      .takes_output = takes_output,
      .vector_bytes = kVectorBytes,
      .workspace_bytes = workspace_backward,
      .unsupported = unsupported,
      .launches = [tf32 = context.tf32](const Call& call) { return launches_backward(call, tf32); },
      .rounds = 12};
}

}  // namespace ridge::backends::cuda
