// SPDX-License-Identifier: Apache-2.0
// Shapes and strides: small fixed-capacity lists of 64-bit extents. Sizes are checked for overflow
// when a shape is constructed, so that a product of its extents is always safe afterwards.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace ridge {
inline namespace base {

inline constexpr int kMaxRank = 6;  // batch, KV head, group, query, key + one spare

// A list of at most kMaxRank extents.
class Dims {
 public:
  Dims() = default;
  Dims(std::initializer_list<int64_t> dims)
      : Dims(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Dims(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int axis) const { return dims_[static_cast<size_t>(axis)]; }
  int64_t& operator[](int axis) { return dims_[static_cast<size_t>(axis)]; }
  int64_t back() const { return dims_[static_cast<size_t>(rank_ - 1)]; }
  const int64_t* begin() const { return dims_.data(); }
  const int64_t* end() const { return dims_.data() + rank_; }
  void push_back(int64_t dim);
  std::vector<int64_t> to_vector() const { return {begin(), end()}; }
  bool operator==(const Dims& other) const;
  std::string str() const;  // "[2,3]"

 protected:
  std::array<int64_t, kMaxRank> dims_{};
  int rank_ = 0;
};

// Extents of a tensor, each >= 0, whose product fits in 63 bits. Rank 0 is a scalar (1 element).
class Shape : public Dims {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims)
      : Shape(std::span<const int64_t>(dims.begin(), dims.size())) {}
  explicit Shape(std::span<const int64_t> dims);

  // Read-only, because setting an extent later would bypass the check.
  int64_t operator[](int axis) const { return Dims::operator[](axis); }
  void push_back(int64_t dim) = delete;

  int64_t elements() const;
  Shape with(int axis, int64_t extent) const;  // the same shape with one extent changed
  int axis(int axis_or_negative) const;        // -1 is the last; throws a usage Error out of range
};

// Steps in elements between neighbours along each axis; 0 repeats one element (a broadcast).
using Strides = Dims;

// Row-major strides of a dense tensor.
Strides dense_strides(const Shape& shape);

// a * b, or an out-of-memory Error that names `what`.
int64_t checked_product(int64_t a, int64_t b, const char* what);
// a + b, or an out-of-memory Error that names `what`.
int64_t checked_sum(int64_t a, int64_t b, const char* what);

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t round_up(int64_t a, int64_t b) { return ceil_div(a, b) * b; }

}  // namespace base
}  // namespace ridge
