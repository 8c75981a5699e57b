// SPDX-License-Identifier: Apache-2.0
// The kernels' calls of rope_table, rope, rope_qkv and
// rope_qkv_backward, filled from a node's operands.
#pragma once

#include <string>

#include "backends/kernels/rope.h"
#include "backends/row_layout.h"

namespace ridge::backends {

inline RopeScaling rope_scaling(const std::string& name) {
  if (name == "linear") return RopeScaling::kLinear;
  return name == "llama3" ? RopeScaling::kLlama3 : RopeScaling::kNone;
}

inline RopeTable rope_table_call(const BindCall& call) {
  const Attrs& a = call.attrs();
  RopeTable table;
  table.tokens = call.inputs[0].type.shape[0];
  table.head_size = a.integer("head_size");
  table.positions = call.inputs[0].as<const int32_t>();
  table.theta = a.real("theta");
  table.scaling = rope_scaling(a.text("scaling"));
  table.factor = a.real("factor");
  table.low_frequency_factor = a.real("low_frequency_factor");
  table.high_frequency_factor = a.real("high_frequency_factor");
  table.original_context = a.real("original_context");
  table.cos = call.outputs[0].as<float>();
  table.sin = call.outputs[1].as<float>();
  return table;
}

// What rope and rope_qkv share: the table, and how heads turn.
template <typename T>
Rope<T> rope_rotation(const BindCall& call, bool inverse) {
  Rope<T> turn;
  turn.cos = call.inputs[1].as<const float>();
  turn.sin = call.inputs[2].as<const float>();
  turn.pairs = call.attrs().flag("interleaved") ? RopePairs::kInterleaved : RopePairs::kHalves;
  turn.inverse = inverse;
  return turn;
}

template <typename T>
Rope<T> rope_call(const BindCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  Rope<T> turn = rope_rotation<T>(call, call.attrs().flag("inverse"));
  turn.tokens = x.type.shape[0];
  turn.heads = turn.rotated_heads = x.type.shape[1];
  turn.head_size = x.type.shape[2];
  turn.x = token_heads<const T>(x);
  turn.y = token_heads<T>(y);
  return turn;
}

// Merged rows [N,(H+2K)E]: q and k heads turn, v heads are copied.
template <typename T>
Rope<T> rope_qkv_call(const BindCall& call) {
  const Operand &x = call.inputs[0], &y = call.outputs[0];
  Rope<T> turn = rope_rotation<T>(call, call.node.op->name == "rope_qkv_backward");
  int64_t q = call.attrs().integer("heads"), kv = call.attrs().integer("kv_heads");
  turn.tokens = x.type.shape[0];
  turn.heads = q + 2 * kv;
  turn.rotated_heads = q + kv;
  turn.head_size = x.type.shape[1] / turn.heads;
  turn.x = {x.as<const T>(), row_stride(x), turn.head_size};
  turn.y = {y.as<T>(), row_stride(y), turn.head_size};
  return turn;
}

}  // namespace ridge::backends
