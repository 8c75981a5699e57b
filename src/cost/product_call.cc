// SPDX-License-Identifier: Apache-2.0
// Maps an einsum and three layouts to m, n, k, batch and storage order.
#include "cost/product_call.h"

#include <algorithm>
#include <bit>
#include <string>

#include "graph/einsum_axes.h"

namespace ridge::cost {
namespace {

// One of the two axes has stride 1; the stride of the other is the distance between rows.
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
  JoinedAxis m = join_letters(e.m, extents, a, c, Chain::kLongest),
             n = join_letters(e.n, extents, b, c, Chain::kLongest),
             k = join_letters(e.k, extents, a, b, Chain::kLongest);
  bool a_transposed = m.extent > 1 && m.first_step == 1 && !(k.extent > 1 && k.first_step == 1);
  bool b_transposed = k.extent > 1 && k.second_step == 1 && !(n.extent > 1 && n.first_step == 1);
  ProductCall product;
  product.dtype = call.inputs[0].dtype;
  product.is_native = call.attrs.flag("native");
  product.extents = {extents.product(e.batch + m.rest + n.rest + k.rest), m.extent, n.extent,
                     k.extent};
  product.power_of_two_rows =
      has_power_of_two_rows(m.first_step, k.first_step, call.inputs[0].dtype) ||
      has_power_of_two_rows(k.second_step, n.first_step, call.inputs[1].dtype) ||
      has_power_of_two_rows(m.second_step, n.second_step, call.outputs[0].dtype);
  bool columns_of_c = n.extent > 1 && n.second_step != 1 && m.second_step == 1;
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

}  // namespace ridge::cost
