// SPDX-License-Identifier: Apache-2.0
// Short forms of the primitives for models, expansions and gradients. Composites are called by
// name.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/builder.h"

namespace ridge::ops {

inline ValueId add(Builder& b, ValueId x, ValueId y) { return b.call("add", {x, y}); }
inline ValueId sub(Builder& b, ValueId x, ValueId y) { return b.call("sub", {x, y}); }
inline ValueId mul(Builder& b, ValueId x, ValueId y) { return b.call("mul", {x, y}); }
inline ValueId scale(Builder& b, ValueId x, double factor) {
  return b.call("scale", {x}, {{"parameter", factor}});
}
inline ValueId add_scalar(Builder& b, ValueId x, double term) {
  return b.call("add_scalar", {x}, {{"parameter", term}});
}
// cap tanh(x / cap): between -cap and cap.
inline ValueId soft_cap(Builder& b, ValueId x, double cap) {
  return scale(b, b.call("tanh", {scale(b, x, 1 / cap)}), cap);
}
inline ValueId unary(Builder& b, std::string_view name, ValueId x) { return b.call(name, {x}); }

// The value in another element type; the value itself if it already has that type.
ValueId cast(Builder& b, ValueId x, DType dtype);

inline ValueId matmul(Builder& b, std::string einsum, ValueId x, ValueId y) {
  return b.call("matmul", {x, y}, {{"einsum", std::move(einsum)}});
}
ValueId matmul(Builder& b, std::string einsum, ValueId x, ValueId y, DType output);

// Any number of operands, "...ij,jk,k->...i"; ops/contraction.h has the notation.
inline ValueId einsum(Builder& b, std::string notation, std::vector<ValueId> operands) {
  return b.call("einsum", std::move(operands), {{"einsum", std::move(notation)}});
}
// "b (h e) t -> b t h e" with sizes "h=8"; ops/rearrangement.h has the notation.
inline ValueId rearrange(Builder& b, std::string pattern, ValueId x, std::string sizes = "") {
  return b.call("rearrange", {x}, {{"pattern", std::move(pattern)}, {"sizes", std::move(sizes)}});
}

ValueId reshape(Builder& b, ValueId x, const Shape& shape);
ValueId slice(Builder& b, ValueId x, int axis, int64_t begin, int64_t end);
ValueId transpose(Builder& b, ValueId x, std::vector<int64_t> permutation);
ValueId broadcast(Builder& b, ValueId x, const Shape& shape);
ValueId concat(Builder& b, std::vector<ValueId> parts, int axis);
ValueId reduce_sum(Builder& b, ValueId x, std::vector<int64_t> axes);

// Broadcasts x to `shape` by new axes in front (a [D] weight over [N,D]) or axes of extent 1.
ValueId broadcast_rows(Builder& b, ValueId x, const Shape& shape);

}  // namespace ridge::ops
