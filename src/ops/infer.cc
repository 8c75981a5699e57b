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

void expect_even_head(int64_t head_size) {
  if (head_size <= 0 || head_size % 2 != 0)
    throw usage_error("[rope] expected an even head size, got {}", head_size);
}

void expect_head_groups(std::string_view op, int64_t heads, int64_t kv_heads) {
  if (heads < 1 || kv_heads < 1 || heads % kv_heads != 0)
    throw usage_error("[{}] expected heads as a multiple of KV heads, got {} and {}", op, heads,
                      kv_heads);
}

void expect_labels(std::string_view op,
                   const Type& rows,
                   const Type& labels,
                   std::string_view what) {
  expect_float(op, rows, what);
  expect_rank(op, rows, 2, what);
  expect_type(op, labels, i32({rows.shape[0]}), "labels");
}

DType result_dtype(std::string_view op, const Attrs& attrs, DType otherwise) {
  const std::string& text = attrs.text("dtype");
  if (text.empty()) return otherwise;
  auto dtype = parse_dtype(text);
  if (!dtype || !is_float(*dtype)) throw usage_error("[{}] unknown type '{}'", op, text);
  return *dtype;
}

Traffic whole_operands(const Call& call) {
  Traffic traffic;
  for (const Type& input : call.inputs) traffic.read_bytes.push_back(bytes_of(input));
  for (const Type& output : call.outputs) traffic.written_bytes.push_back(bytes_of(output));
  return traffic;
}

AxisExtents around(const Shape& shape, int axis) {
  AxisExtents extents;
  for (int i = 0; i < axis; ++i) extents.outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) extents.inner *= shape[i];
  return extents;
}

RowExtents rows_of(const Shape& shape) {
  int64_t width = shape.rank() == 0 ? 1 : shape.back();
  return {width == 0 ? 0 : shape.elements() / width, width};
}

}  // namespace ridge::ops
