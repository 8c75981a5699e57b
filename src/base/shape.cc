// SPDX-License-Identifier: Apache-2.0
// Shapes: construction with overflow checks.
#include "base/shape.h"

#include <algorithm>

#include "base/error.h"

namespace ridge {
inline namespace base {

Dims::Dims(std::span<const int64_t> dims) {
  for (int64_t dim : dims) push_back(dim);
}

void Dims::push_back(int64_t dim) {
  if (rank_ == kMaxRank) throw usage_error("[shape] expected at most {} axes", kMaxRank);
  dims_[static_cast<size_t>(rank_++)] = dim;
}

bool Dims::operator==(const Dims& other) const {
  return std::equal(begin(), end(), other.begin(), other.end());
}

std::string Dims::str() const { return fmt::format("[{}]", fmt::join(begin(), end(), ",")); }

Shape::Shape(std::span<const int64_t> dims) : Dims(dims) {
  int64_t elements = 1;
  for (int64_t dim : *this) {
    if (dim < 0) throw usage_error("[shape] expected extents >= 0, got {}", str());
    // A zero extent must not hide an overflow of the others.
    elements = checked_product(elements, std::max<int64_t>(dim, 1), "shape");
  }
}

int64_t Shape::elements() const {
  int64_t elements = 1;
  for (int64_t dim : *this) elements *= dim;
  return elements;
}

Shape Shape::with(int axis, int64_t extent) const {
  std::vector<int64_t> dims = to_vector();
  dims[static_cast<size_t>(axis)] = extent;
  return Shape(dims);
}

int Shape::axis(int axis_or_negative) const {
  int axis = axis_or_negative < 0 ? axis_or_negative + rank_ : axis_or_negative;
  if (axis < 0 || axis >= rank_)
    throw usage_error("[shape] expected an axis of {}, got {}", str(), axis_or_negative);
  return axis;
}

Strides dense_strides(const Shape& shape) {
  Strides strides(std::span<const int64_t>(shape.begin(), shape.end()));
  int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    strides[axis] = step;
    step *= std::max<int64_t>(shape[axis], 1);
  }
  return strides;
}

int64_t checked_product(int64_t a, int64_t b, const char* what) {
  int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product))
    throw memory_error("[{}] the size {} x {} does not fit in 63 bits", what, a, b);
  return product;
}

int64_t checked_sum(int64_t a, int64_t b, const char* what) {
  int64_t sum = 0;
  if (__builtin_add_overflow(a, b, &sum))
    throw memory_error("[{}] the total {} + {} does not fit in 63 bits", what, a, b);
  return sum;
}

}  // namespace base
}  // namespace ridge
