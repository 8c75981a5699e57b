// SPDX-License-Identifier: Apache-2.0
// The short forms that take more than one line.
#include "ops/build.h"

namespace ridge::ops {

ValueId cast(Builder& b, ValueId x, DType dtype) {
  if (b.type(x).dtype == dtype) return x;
  return b.call("cast", {x}, {{"dtype", std::string(name(dtype))}});
}

ValueId matmul(Builder& b, std::string einsum, ValueId x, ValueId y, DType output) {
  return b.call("matmul", {x, y},
                {{"einsum", std::move(einsum)}, {"dtype", std::string(name(output))}});
}

ValueId reshape(Builder& b, ValueId x, const Shape& shape) {
  if (b.shape(x) == shape) return x;
  return b.call("reshape", {x}, {{"shape", shape.to_vector()}});
}

ValueId slice(Builder& b, ValueId x, int axis, int64_t begin, int64_t end) {
  int64_t at = b.shape(x).axis(axis);
  return b.call("slice", {x}, {{"axis", at}, {"begin", begin}, {"end", end}});
}

ValueId transpose(Builder& b, ValueId x, std::vector<int64_t> permutation) {
  return b.call("transpose", {x}, {{"permutation", std::move(permutation)}});
}

ValueId broadcast(Builder& b, ValueId x, const Shape& shape) {
  if (b.shape(x) == shape) return x;
  return b.call("broadcast", {x}, {{"shape", shape.to_vector()}});
}

ValueId concat(Builder& b, std::vector<ValueId> parts, int axis) {
  if (parts.size() == 1) return parts[0];
  int64_t at = b.shape(parts[0]).axis(axis);
  return b.call("concat", std::move(parts), {{"axis", at}});
}

ValueId reduce_sum(Builder& b, ValueId x, std::vector<int64_t> axes) {
  return b.call("reduce_sum", {x}, {{"axes", std::move(axes)}});
}

ValueId broadcast_rows(Builder& b, ValueId x, const Shape& shape) {
  std::vector<int64_t> dims = b.shape(x).to_vector();
  while (static_cast<int>(dims.size()) < shape.rank()) dims.insert(dims.begin(), 1);
  return broadcast(b, reshape(b, x, Shape(dims)), shape);
}

}  // namespace ridge::ops
