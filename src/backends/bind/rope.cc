// SPDX-License-Identifier: Apache-2.0
// Bindings of rope_table, rope, rope_qkv and rope_qkv_backward.
#include <string>

#include "backends/bind/bindings.h"
#include "backends/row_layout.h"

namespace ridge::backends::bind {
namespace {

RopeScaling scaling(const std::string& name) {
  if (name == "linear") return RopeScaling::kLinear;
  return name == "llama3" ? RopeScaling::kLlama3 : RopeScaling::kNone;
}

RopeTable table_call(const BindCall& call) {
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
  return table;
}

// The arguments that rope and rope_qkv share: the table, and how heads are rotated.
template <typename T>
Rope<T> rotation(const BindCall& call, bool inverse) {
  Rope<T> rope;
  rope.cos = call.inputs[1].as<const float>();
  rope.sin = call.inputs[2].as<const float>();
  rope.pairs = call.attrs().flag("interleaved") ? RopePairs::kInterleaved : RopePairs::kHalves;
  rope.inverse = inverse;
  return rope;
}

constexpr auto rope_call = []<typename T>(const BindCall& call) -> Rope<T> {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  Rope<T> rope = rotation<T>(call, call.attrs().flag("inverse"));
  rope.tokens = x.type.shape[0];
  rope.heads = rope.rotated_heads = x.type.shape[1];
  rope.head_size = x.type.shape[2];
  rope.x = token_heads<const T>(x);
  rope.y = token_heads<T>(y);
  return rope;
};

// Merged rows [N,(H+2K)E]: q and k heads are rotated, v heads are copied.
constexpr auto qkv_call = []<typename T>(const BindCall& call) -> Rope<T> {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  Rope<T> rope = rotation<T>(call, call.node.op->name == "rope_qkv_backward");
  int64_t q = call.attrs().integer("heads"), kv = call.attrs().integer("kv_heads");
  rope.tokens = x.type.shape[0];
  rope.heads = q + 2 * kv;
  rope.rotated_heads = q + kv;
  rope.head_size = x.type.shape[1] / rope.heads;
  rope.x = {x.as<const T>(), row_stride(x), rope.head_size};
  rope.y = {y.as<T>(), row_stride(y), rope.head_size};
  return rope;
};

Kernel qkv_kernel(std::string_view op, TypedLaunchers<Rope> launchers) {
  return {.op = op,
          .bind = bind_typed(std::move(launchers), qkv_call),
          .takes_input = first_lies_in_rows,
          .takes_output = output_lies_in_rows,
          .in_place = true};
}

}  // namespace

Kernel rope_table(Launcher<RopeTable> launcher) {
  return {.op = "rope_table", .bind = bind_one(std::move(launcher), table_call)};
}

Kernel rope(TypedLaunchers<Rope> launchers) {
  return {.op = "rope",
          .bind = bind_typed(std::move(launchers), rope_call),
          .takes_input = first_lies_in_heads,
          .takes_output = output_lies_in_heads,
          .in_place = true};
}

Kernel rope_qkv(TypedLaunchers<Rope> launchers) {
  return qkv_kernel("rope_qkv", std::move(launchers));
}

Kernel rope_qkv_backward(TypedLaunchers<Rope> launchers) {
  return qkv_kernel("rope_qkv_backward", std::move(launchers));
}

}  // namespace ridge::backends::bind
