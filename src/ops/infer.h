// SPDX-License-Identifier: Apache-2.0
// Checks that shape rules share, and loops over rows for the double references. Not for kernels.
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

// f32 of a shape.
inline Type f32(const Shape& shape) { return {DType::kF32, shape}; }
inline Type i32(const Shape& shape) { return {DType::kI32, shape}; }

// A tensor seen as rows of its last axis.
struct RowExtents {
  int64_t count;
  int64_t width;
};
RowExtents rows_of(const Shape& shape);

// Calls body(first element) for each row.
template <typename Body>
void for_each_row(const RowExtents& rows, const Body& body) {
  for (int64_t r = 0; r < rows.count; ++r) body(static_cast<size_t>(r * rows.width));
}

}  // namespace ridge::ops
