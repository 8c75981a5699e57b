// SPDX-License-Identifier: Apache-2.0
// Numbers that count the arithmetic done with them, by the rules of docs/accounting.md, and arrays
// that remember which elements were read and written. A loop written with them computes its result
// and its own cost.
#pragma once

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "base/error.h"
#include "graph/op.h"

namespace ridge::ops {

inline Work counted_work;  // all Numbers add to it; a test resets it

class Number {
 public:
  Number() = default;
  Number(double value) : value_(value) {}  // NOLINT(google-explicit-constructor): a constant
  double value() const { return value_; }

 private:
  double value_ = 0;
};

inline Number counted(double result, int transcendentals = 0) {
  counted_work.flops += 1;
  counted_work.transcendentals += transcendentals;
  return result;
}

inline Number operator+(Number a, Number b) { return counted(a.value() + b.value()); }
inline Number operator-(Number a, Number b) { return counted(a.value() - b.value()); }
inline Number operator*(Number a, Number b) { return counted(a.value() * b.value()); }
inline Number operator/(Number a, Number b) { return counted(a.value() / b.value(), 1); }
inline Number operator-(Number a) { return counted(-a.value()); }
inline Number max(Number a, Number b) { return counted(std::max(a.value(), b.value())); }
inline Number min(Number a, Number b) { return counted(std::min(a.value(), b.value())); }
inline Number exp(Number a) { return counted(std::exp(a.value()), 1); }
inline Number log(Number a) { return counted(std::log(a.value()), 1); }
inline Number tanh(Number a) { return counted(std::tanh(a.value()), 1); }
inline Number sqrt(Number a) { return counted(std::sqrt(a.value()), 1); }
inline Number rsqrt(Number a) { return counted(1 / std::sqrt(a.value()), 1); }
inline Number reciprocal(Number a) { return counted(1 / a.value(), 1); }
inline Number cos(Number a) { return counted(std::cos(a.value()), 1); }
inline Number sin(Number a) { return counted(std::sin(a.value()), 1); }
// The lab notebook counts a cube as one operation.
inline Number cube(Number a) { return counted(a.value() * a.value() * a.value()); }
inline bool exceeds(Number a, Number b) { return counted(a.value() - b.value()).value() > 0; }
// sum + a b as part of a matrix product.
inline Number mac(Number sum, Number a, Number b) {
  counted_work.macs += 1;
  counted_work.flops += 2;
  return sum.value() + a.value() * b.value();
}

// An operand of a loop: dense, row-major.
class CountedArray {
 public:
  CountedArray(Type type, std::vector<double> data)
      : type_(std::move(type)),
        data_(std::move(data)),
        read_(data_.size(), false),
        written_(data_.size(), false) {
    RIDGE_CHECK(std::ssize(data_) == type_.shape.elements(), "{} values", data_.size());
  }

  class Element {
   public:
    Element(CountedArray& array, size_t at) : array_(array), at_(at) {}
    Element(const Element&) = default;
    // NOLINTNEXTLINE(google-explicit-constructor): reading an element yields a number
    operator Number() const {
      array_.read_[at_] = true;
      return array_.data_[at_];
    }
    const Element& operator=(Number number) const {
      array_.written_[at_] = true;
      array_.data_[at_] = number.value();
      return *this;
    }
    const Element& operator=(const Element& other) const { return *this = Number(other); }

   private:
    CountedArray& array_;
    size_t at_;
  };

  Element operator[](int64_t i) { return {*this, static_cast<size_t>(i)}; }
  // Reads an element that no counted arithmetic follows: an id, or a scalar of the whole call.
  double plain(int64_t i) { return Number((*this)[i]).value(); }
  int64_t id(int64_t i) { return static_cast<int64_t>(plain(i)); }
  void touch_all() { std::fill(read_.begin(), read_.end(), true); }

  const Type& type() const { return type_; }
  const Shape& shape() const { return type_.shape; }
  const std::vector<double>& data() const { return data_; }
  const std::vector<bool>& read() const { return read_; }
  const std::vector<bool>& written() const { return written_; }

 private:
  Type type_;
  std::vector<double> data_;
  std::vector<bool> read_, written_;
};

using Arrays = std::vector<CountedArray>;

// The rows of an array along its last axis.
inline int64_t width_of(const CountedArray& array) { return array.shape().back(); }
inline int64_t rows_of(const CountedArray& array) {
  return array.shape().elements() / width_of(array);
}

}  // namespace ridge::ops
