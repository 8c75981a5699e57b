// SPDX-License-Identifier: Apache-2.0
// Parses einsum notation and classifies its letters.
#include "graph/einsum.h"

#include <vector>

#include "base/error.h"

namespace ridge::inline graph {
namespace {

bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

void check_letters(std::string_view text, std::string_view letters) {
  for (size_t i = 0; i < letters.size(); ++i) {
    if (letters[i] < 'a' || letters[i] > 'z')
      throw usage_error("[einsum] expected letters a to z in '{}', got '{}'", text, letters[i]);
    if (has(letters.substr(0, i), letters[i]))
      throw usage_error("[einsum] the letter '{}' stands twice in one operand of '{}'", letters[i],
                        text);
  }
}

}  // namespace

Einsum parse_einsum(std::string_view text) {
  size_t comma = text.find(',');
  size_t arrow = text.find("->");
  if (comma == std::string_view::npos || arrow == std::string_view::npos || arrow < comma)
    throw usage_error("[einsum] expected 'a,b->out', got '{}'", text);
  Einsum e;
  e.a = text.substr(0, comma);
  e.b = text.substr(comma + 1, arrow - comma - 1);
  e.out = text.substr(arrow + 2);
  for (std::string_view letters : {e.a, e.b, e.out}) check_letters(text, letters);
  for (char letter : e.out) {
    if (has(e.a, letter) && has(e.b, letter))
      e.batch += letter;
    else if (has(e.a, letter))
      e.m += letter;
    else if (has(e.b, letter))
      e.n += letter;
    else
      throw usage_error("[einsum] '{}' of '{}' is in no operand", letter, text);
  }
  for (char letter : e.a) {
    if (has(e.out, letter)) continue;
    if (!has(e.b, letter))
      throw usage_error("[einsum] '{}' of '{}' is in one operand only", letter, text);
    e.k += letter;
  }
  for (char letter : e.b)
    if (!has(e.out, letter) && !has(e.a, letter))
      throw usage_error("[einsum] '{}' of '{}' is in one operand only", letter, text);
  return e;
}

EinsumExtents::EinsumExtents(const Einsum& einsum, const Shape& a, const Shape& b) {
  extents_.fill(-1);
  auto bind = [&](const std::string& letters, const Shape& shape) {
    if (static_cast<int>(letters.size()) != shape.rank())
      throw usage_error("[einsum] '{}' names {} axes, the operand is {}", letters, letters.size(),
                        shape.str());
    for (int axis = 0; axis < shape.rank(); ++axis) {
      int64_t& extent = extents_[static_cast<size_t>(letters[static_cast<size_t>(axis)] - 'a')];
      if (extent >= 0 && extent != shape[axis])
        throw usage_error("[einsum] '{}' is {} in one operand and {} in the other of '{}'",
                          letters[static_cast<size_t>(axis)], extent, shape[axis], einsum.str());
      extent = shape[axis];
    }
  };
  bind(einsum.a, a);
  bind(einsum.b, b);
}

int64_t EinsumExtents::product(std::string_view letters) const {
  int64_t product = 1;
  for (char letter : letters) product = checked_product(product, (*this)[letter], "einsum");
  return product;
}

Shape EinsumExtents::shape(std::string_view letters) const {
  std::vector<int64_t> dims;
  for (char letter : letters) dims.push_back((*this)[letter]);
  return Shape(dims);
}

}  // namespace ridge::inline graph
