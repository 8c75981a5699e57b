// SPDX-License-Identifier: Apache-2.0
// From an einsum and three layouts to m, n, k, batch and form.
#include "perf/product_call.h"

#include <algorithm>
#include <bit>
#include <string>

#include "graph/einsum.h"

namespace ridge::perf {
namespace {

// A tensor's letters with their steps.
struct Lettered {
  const std::string& letters;
  const Strides& strides;
  int64_t step(char letter) const {
    size_t at = letters.find(letter);
    return at == std::string::npos ? 0 : strides[static_cast<int>(at)];
  }
};

struct JoinedAxis {
  int64_t extent = 1;
  int64_t steps[2] = {1, 1};  // in the two tensors that hold it
  int64_t rest = 1;           // product of the extents that did not join
};

// The longest evenly stepping chain of letters.
JoinedAxis join(const std::string& letters,
                const EinsumExtents& extents,
                const Lettered& first,
                const Lettered& second) {
  std::string order;
  for (char letter : letters)
    if (extents[letter] > 1) order += letter;
  std::stable_sort(order.begin(), order.end(),
                   [&](char x, char y) { return first.step(x) < first.step(y); });
  int64_t all = extents.product(letters);
  JoinedAxis best;
  best.rest = all;
  for (size_t begin = 0; begin < order.size(); ++begin) {
    JoinedAxis axis{
        extents[order[begin]], {first.step(order[begin]), second.step(order[begin])}, 1};
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == begin) continue;
      bool joins = first.step(order[i]) == axis.steps[0] * axis.extent &&
                   second.step(order[i]) == axis.steps[1] * axis.extent;
      if (joins) axis.extent *= extents[order[i]];
    }
    if (axis.extent > best.extent) best = axis;
  }
  best.rest = best.extent > 0 ? all / best.extent : 1;
  return best;
}

// Of a matrix of these two axes, one of them with steps of 1.
bool has_power_of_two_rows(int64_t row_step, int64_t column_step, DType dtype) {
  int64_t bytes = storage_bytes(dtype, std::max(row_step, column_step));
  return bytes >= 2048 && std::has_single_bit(static_cast<uint64_t>(bytes));
}

}  // namespace

ProductCall product_call(const Call& call,
                         const Layout& a_layout,
                         const Layout& b_layout,
                         const Layout& c_layout) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  EinsumExtents extents(e, call.inputs[0].shape, call.inputs[1].shape);
  Lettered a{e.a, a_layout.strides}, b{e.b, b_layout.strides}, c{e.out, c_layout.strides};
  JoinedAxis m = join(e.m, extents, a, c), n = join(e.n, extents, b, c),
             k = join(e.k, extents, a, b);
  bool a_transposed = m.extent > 1 && m.steps[0] == 1 && !(k.extent > 1 && k.steps[0] == 1);
  bool b_transposed = k.extent > 1 && k.steps[1] == 1 && !(n.extent > 1 && n.steps[0] == 1);
  ProductCall product;
  product.dtype = call.inputs[0].dtype;
  product.extents = {extents.product(e.batch) * m.rest * n.rest * k.rest, m.extent, n.extent,
                     k.extent};
  product.power_of_two_rows = has_power_of_two_rows(m.steps[0], k.steps[0], call.inputs[0].dtype) ||
                              has_power_of_two_rows(k.steps[1], n.steps[0], call.inputs[1].dtype) ||
                              has_power_of_two_rows(m.steps[1], n.steps[1], call.outputs[0].dtype);
  bool columns_of_c = n.extent > 1 && n.steps[1] != 1 && m.steps[1] == 1;
  if (columns_of_c) {
    std::swap(product.extents.m, product.extents.n);
    bool was_a = a_transposed;
    a_transposed = !b_transposed;
    b_transposed = !was_a;
  }
  product.form = a_transposed ? (b_transposed ? ProductForm::kTT : ProductForm::kTN)
                              : (b_transposed ? ProductForm::kNT : ProductForm::kNN);
  return product;
}

}  // namespace ridge::perf
