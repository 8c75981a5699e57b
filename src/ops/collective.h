// SPDX-License-Identifier: Apache-2.0
// Shared by the collectives: what each of them expects of its ranks, the bytes of its tensors, and
// what a sum over the ranks costs and gives.
#pragma once

#include <string_view>
#include <vector>

#include "base/error.h"
#include "ops/op_from.h"

namespace ridge::ops {

inline int64_t ranks_of(std::string_view op, const Call& call) {
  const int64_t ranks = call.attrs.integer("ranks");
  if (ranks < 1) throw usage_error("[{}] expected at least 1 rank, got {}", op, ranks);
  return ranks;
}

inline int64_t bytes_of(std::span<const Type> types) {
  int64_t bytes = 0;
  for (const Type& type : types) bytes += bytes_of(type);
  return bytes;
}

inline int64_t elements_of(std::span<const Type> types) {
  int64_t elements = 0;
  for (const Type& type : types) elements += type.shape.elements();
  return elements;
}

// In a ring each rank adds its tensor's part to the sum that passes, once for each part but one
// (Patarasuk and Yuan 2009).
inline Work ring_additions(const Call& call) {
  const int64_t ranks = call.attrs.integer("ranks");
  return arithmetic(elements_of(call.inputs) / ranks * (ranks - 1));
}

// The sum, or the average, of tensors that are the same on every rank, over one of them.
inline double same_on_ranks_factor(const Call& call) {
  return call.attrs.flag("average") ? 1 : static_cast<double>(call.attrs.integer("ranks"));
}

// The attributes of a collective of the same ranks along the same axis.
inline Attrs along_axis(const Node& node) {
  return {{"group", node.attrs.text("group")},
          {"ranks", node.attrs.integer("ranks")},
          {"axis", node.attrs.integer("axis")}};
}
inline Attrs same_ranks(const Node& node) {
  return {{"group", node.attrs.text("group")}, {"ranks", node.attrs.integer("ranks")}};
}

// The value in bytes of its own, which a collective may overwrite.
inline ValueId own_bytes(Builder& b, ValueId value) {
  const Node* producer = b.graph().producer(value);
  const bool is_shared = producer == nullptr || producer->op->kind == OpKind::kView;
  return is_shared ? b.call("copy", {value}) : value;
}

// The cases of a collective that divides tensors, or joins their parts, along an axis.
inline std::vector<Case> axis_cases() {
  return {{"rows",
           {{f32({7, 19}), {}, false}, {f32({131}), {}, false}},
           {{"group", "data"}, {"ranks", int64_t{1}}}},
          {"columns",
           {{f32({7, 19}), {}, false}},
           {{"group", "data"}, {"ranks", int64_t{1}}, {"axis", int64_t{1}}}}};
}

}  // namespace ridge::ops
