// SPDX-License-Identifier: Apache-2.0
// Bindings of rope_table, rope, rope_qkv and rope_qkv_backward.
#include "backends/cuda/kernels/rope.h"

#include "backends/cuda/cuda_kernel.h"
#include "base/error.h"

namespace ridge::backends::cuda {
namespace {

RopeScaling scaling(const std::string& name) {
  if (name == "linear") return RopeScaling::kLinear;
  return name == "llama3" ? RopeScaling::kLlama3 : RopeScaling::kNone;
}

Launch bind_table(const BindCall& call, BindContext& context) {
  const Attrs& a = call.attrs();
  RopeTable table;
  table.tokens = call.inputs[0].type.shape[0];
  table.head_size = a.integer("head_size");
  table.positions = call.inputs[0].as<const int32_t>();
  table.theta = a.real("theta");
  table.scaling = scaling(a.text("scaling"));
  table.factor = a.real("factor");
  table.low_frequency_factor = a.real("low_frequency_factor");
  table.high_frequency_factor = a.real("high_frequency_factor");
  table.original_context = a.real("original_context");
  table.cos = call.outputs[0].as<float>();
  table.sin = call.outputs[1].as<float>();
  return launch_on(context.device, "rope_table", launch_rope_table, table);
}

template <typename T>
RopeOperand<T> heads(const Operand& operand) {
  return {operand.as<T>(), operand.strides[0], operand.strides[1]};
}

template <typename T>
Rope<T> rotation(const BindCall& call, bool inverse) {
  Rope<T> rope;
  rope.cos = call.inputs[1].as<const float>();
  rope.sin = call.inputs[2].as<const float>();
  rope.pairs = call.attrs().flag("interleaved") ? RopePairs::kInterleaved : RopePairs::kHalves;
  rope.inverse = inverse;
  return rope;
}

Launch bind(const BindCall& call, BindContext& context) {
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    Rope<T> turn = rotation<T>(call, call.attrs().flag("inverse"));
    const Shape& shape = call.inputs[0].type.shape;
    turn.tokens = shape[0];
    turn.heads = turn.rotated_heads = shape[1];
    turn.head_size = shape[2];
    turn.x = heads<const T>(call.inputs[0]);
    turn.y = heads<T>(call.outputs[0]);
    return launch_on(context.device, "rope", launch_rope<T>, turn);
  });
}

// Merged rows [N,(H+2K)E]: q and k heads turn, v heads are copied.
Launch bind_qkv(const BindCall& call, BindContext& context) {
  bool inverse = call.node.op->name == "rope_qkv_backward";
  return by_dtype(call.inputs[0].type.dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    Rope<T> turn = rotation<T>(call, inverse);
    int64_t q = call.attrs().integer("heads"), kv = call.attrs().integer("kv_heads");
    turn.tokens = call.inputs[0].type.shape[0];
    turn.heads = q + 2 * kv;
    turn.rotated_heads = q + kv;
    turn.head_size = call.inputs[0].type.shape[1] / turn.heads;
    turn.x = {call.inputs[0].as<const T>(), row_stride(call.inputs[0]), turn.head_size};
    turn.y = {call.outputs[0].as<T>(), row_stride(call.outputs[0]), turn.head_size};
    return launch_on(context.device, "rope_qkv", launch_rope<T>, turn);
  });
}

}  // namespace

const CudaKernel& rope_table_kernel() {
  static const CudaKernel kernel{.op = "rope_table", .bind = bind_table};
  return kernel;
}

const CudaKernel& rope_kernel() {
  static const CudaKernel kernel{.op = "rope",
                                 .bind = bind,
                                 .takes_input = first_lies_in_heads,
                                 .takes_output = output_lies_in_heads,
                                 .in_place = true};
  return kernel;
}

const CudaKernel& rope_qkv_kernel() {
  static const CudaKernel kernel{.op = "rope_qkv",
                                 .bind = bind_qkv,
                                 .takes_input = first_lies_in_rows,
                                 .takes_output = output_lies_in_rows,
                                 .in_place = true};
  return kernel;
}

const CudaKernel& rope_qkv_backward_kernel() {
  static const CudaKernel kernel{.op = "rope_qkv_backward",
                                 .bind = bind_qkv,
                                 .takes_input = first_lies_in_rows,
                                 .takes_output = output_lies_in_rows,
                                 .in_place = true};
  return kernel;
}

}  // namespace ridge::backends::cuda
