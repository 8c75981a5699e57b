// SPDX-License-Identifier: Apache-2.0
// Einsum notation for products of two operands, "nd,fd->nf". Letters are axes: a letter missing
// from the output is summed over, and a letter in both operands and the output is a batch axis. No
// letter is repeated in one operand.
#pragma once

#include <string>
#include <string_view>

#include "base/shape.h"

namespace ridge::inline graph {

struct Einsum {
  std::string a, b, out;  // the letters of each operand
  std::string batch;      // in a, b and out
  std::string m;          // in a and out only
  std::string n;          // in b and out only
  std::string k;          // in a and b only

  std::string str() const { return a + "," + b + "->" + out; }
  // Whether it is a projection: y[N,out] = x[N,in] W[out,in]^T.
  bool is_projection() const {
    return a.size() == 2 && batch.empty() && k.size() == 1 && a[1] == k[0] && b == n + k &&
           out == m + n && m.size() == 1;
  }
};

// Throws a usage Error for any other form.
Einsum parse_einsum(std::string_view text);

// The extent of each letter; throws if the operands disagree with the notation or with each other.
class EinsumExtents {
 public:
  EinsumExtents(const Einsum& einsum, const Shape& a, const Shape& b);
  int64_t operator[](char letter) const { return extents_[static_cast<size_t>(letter - 'a')]; }
  int64_t product(std::string_view letters) const;
  Shape shape(std::string_view letters) const;

 private:
  std::array<int64_t, 26> extents_{};
};

}  // namespace ridge::inline graph
