// SPDX-License-Identifier: Apache-2.0
// Checks shared by shape rules, and loops over rows for double-precision references. Not for
// kernels.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "graph/op.h"

namespace ridge::ops {

// Each throws a usage Error "[op] expected ..., got ...".
void expect_rank(std::string_view op, const Type& type, int rank, std::string_view what);
void expect_same(std::string_view op, const Type& a, const Type& b, std::string_view what);
int expect_axis(std::string_view op, const Shape& shape, int64_t axis);  // 0 <= axis < rank
void expect_type(std::string_view op,
                 const Type& type,
                 const Type& expected,
                 std::string_view what);
void expect_shape(std::string_view op, const Type& type, const Shape& shape, std::string_view what);
void expect_float(std::string_view op, const Type& type, std::string_view what);
void expect_dtype(std::string_view op, const Type& type, DType dtype, std::string_view what);
void expect_even_head(int64_t head_size);
void expect_head_groups(std::string_view op, int64_t heads, int64_t kv_heads);
// Checks rows [N,V] of a loss, which `what` describes, and labels i32[N].
void expect_labels(std::string_view op,
                   const Type& rows,
                   const Type& labels,
                   std::string_view what);

// The floating-point type that the attribute `dtype` names; `otherwise` if it is empty. Throws a
// usage Error for any other type.
DType result_dtype(std::string_view op, const Attrs& attrs, DType otherwise);

// Types of a given shape.
inline Type f32(const Shape& shape) { return {DType::kF32, shape}; }
inline Type i32(const Shape& shape) { return {DType::kI32, shape}; }
inline Type bf16(const Shape& shape) { return {DType::kBF16, shape}; }

inline int64_t bytes_of(const Type& type) {
  return storage_bytes(type.dtype, type.shape.elements());
}

// All of each operand once; ops that touch only some rows of an operand start from it.
Traffic whole_operands(const Call& call);

// The rows of a tensor along its last axis.
struct RowExtents {
  int64_t count;
  int64_t width;
};
RowExtents rows_of(const Shape& shape);

// The elements of a tensor before and after one axis.
struct AxisExtents {
  int64_t outer = 1, inner = 1;
};
AxisExtents around(const Shape& shape, int axis);

// Calls body(index of the first element) for each row.
template <typename Body>
void for_each_row(const RowExtents& rows, const Body& body) {
  for (int64_t r = 0; r < rows.count; ++r) body(static_cast<size_t>(r * rows.width));
}

}  // namespace ridge::ops
