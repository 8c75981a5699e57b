// SPDX-License-Identifier: Apache-2.0
// Shared by the collectives: what each of them expects of its ranks, and the bytes of its tensors.
#pragma once

#include <string_view>

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

}  // namespace ridge::ops
