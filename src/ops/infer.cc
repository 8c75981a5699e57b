// SPDX-License-Identifier: Apache-2.0
// Shape checks with their messages.
#include "ops/infer.h"

namespace ridge::ops {

void expect_rank(std::string_view op, const Type& type, int rank, std::string_view what) {
  if (type.shape.rank() != rank)
    throw usage_error("[{}] expected {} of rank {}, got {}", op, what, rank, type.str());
}

void expect_same(std::string_view op, const Type& a, const Type& b, std::string_view what) {
  if (!(a == b))
    throw usage_error("[{}] expected {} of one type, got {} and {}", op, what, a.str(), b.str());
}

int expect_axis(std::string_view op, const Shape& shape, int64_t axis) {
  if (axis < 0 || axis >= shape.rank())
    throw usage_error("[{}] expected an axis of {}, got {}", op, shape.str(), axis);
  return static_cast<int>(axis);
}

void expect_type(std::string_view op,
                 const Type& type,
                 const Type& expected,
                 std::string_view what) {
  if (!(type == expected))
    throw usage_error("[{}] expected {} as {}, got {}", op, what, expected.str(), type.str());
}

void expect_shape(std::string_view op,
                  const Type& type,
                  const Shape& shape,
                  std::string_view what) {
  if (!(type.shape == shape))
    throw usage_error("[{}] expected {} of shape {}, got {}", op, what, shape.str(), type.str());
}

void expect_float(std::string_view op, const Type& type, std::string_view what) {
  if (!is_float(type.dtype))
    throw usage_error("[{}] expected {} of a floating-point type, got {}", op, what, type.str());
}

void expect_dtype(std::string_view op, const Type& type, DType dtype, std::string_view what) {
  if (type.dtype != dtype)
    throw usage_error("[{}] expected {} of {}, got {}", op, what, name(dtype), type.str());
}

RowExtents rows_of(const Shape& shape) {
  int64_t width = shape.rank() == 0 ? 1 : shape.back();
  return {width == 0 ? 0 : shape.elements() / width, width};
}

}  // namespace ridge::ops
