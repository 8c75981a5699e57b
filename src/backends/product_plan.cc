// SPDX-License-Identifier: Apache-2.0
// Joining an einsum's letters into the axes of a product.
#include "backends/product_plan.h"

#include <fmt/format.h>

#include <algorithm>

namespace ridge::backends {
namespace {

// The strides of an operand by letter; 0 for a letter that it lacks.
int64_t stride_of(const std::string& letters, const Strides& strides, char letter) {
  size_t at = letters.find(letter);
  return at == std::string::npos ? 0 : strides[static_cast<int>(at)];
}

// A set of letters that acts as one axis in two operands: extent and stride in each.
struct Axis {
  int64_t extent = 1;
  int64_t in_first = 0;
  int64_t in_second = 0;
};

// Joins the letters into one axis that steps evenly in both operands, taking them from the
// innermost out; letters that do not join are returned in `rest`.
Axis join(const std::string& letters,
          const EinsumExtents& extents,
          const std::string& first,
          const Strides& first_strides,
          const std::string& second,
          const Strides& second_strides,
          std::string& rest) {
  // Order by the first operand's stride, innermost last.
  std::string order = letters;
  std::stable_sort(order.begin(), order.end(), [&](char x, char y) {
    return stride_of(first, first_strides, x) > stride_of(first, first_strides, y);
  });
  Axis axis;
  for (size_t i = order.size(); i-- > 0;) {
    char letter = order[i];
    if (extents[letter] == 1) continue;
    int64_t a = stride_of(first, first_strides, letter),
            b = stride_of(second, second_strides, letter);
    if (axis.extent == 1)
      axis = {extents[letter], a, b};
    else if (a == axis.in_first * axis.extent && b == axis.in_second * axis.extent)
      axis.extent *= extents[letter];
    else
      rest += letter;
  }
  // A single element: any stride does; 1 keeps the descriptor dense.
  if (axis.extent == 1) axis = {1, 1, 1};
  return axis;
}

}  // namespace

std::string GemmShape::key() const {
  return fmt::format("m{}n{}k{}:a{},{}:b{},{}:c{},{}:[{}]:[{}]:[{}]:[{}]:{}-{}{}", m, n, k, a_m,
                     a_k, b_k, b_n, c_m, c_n, fmt::join(batch, ","), fmt::join(a_batch, ","),
                     fmt::join(b_batch, ","), fmt::join(c_batch, ","), ridge::name(input),
                     ridge::name(output), accumulate ? "+" : "");
}

ProductLayouts dense_layouts(const Call& call) {
  return {dense_strides(call.inputs[0].shape), dense_strides(call.inputs[1].shape),
          dense_strides(call.outputs[0].shape)};
}

ProductPlan plan_product(const Call& call, const ProductLayouts& layouts) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  EinsumExtents extents(e, call.inputs[0].shape, call.inputs[1].shape);
  ProductPlan plan;
  std::string m_rest, n_rest;
  Axis m = join(e.m, extents, e.a, layouts.a, e.out, layouts.out, m_rest);
  Axis n = join(e.n, extents, e.b, layouts.b, e.out, layouts.out, n_rest);
  Axis k = join(e.k, extents, e.a, layouts.a, e.b, layouts.b, plan.loop);
  GemmShape& g = plan.gemm;
  for (char letter : e.batch + m_rest + n_rest) {
    if (stride_of(e.a, layouts.a, letter) == 0 && stride_of(e.b, layouts.b, letter) == 0 &&
        extents[letter] > 1) {
      plan.copies += letter;
      continue;
    }
    g.batch.push_back(extents[letter]);
    g.a_batch.push_back(stride_of(e.a, layouts.a, letter));
    g.b_batch.push_back(stride_of(e.b, layouts.b, letter));
    g.c_batch.push_back(stride_of(e.out, layouts.out, letter));
  }
  g.m = m.extent, g.n = n.extent, g.k = k.extent;
  g.a_m = m.in_first, g.c_m = m.in_second;
  g.b_n = n.in_first, g.c_n = n.in_second;
  g.a_k = k.in_first, g.b_k = k.in_second;
  g.input = call.inputs[0].dtype;
  g.output = call.outputs[0].dtype;
  return plan;
}

std::vector<ProductStep> product_steps(const Call& call,
                                       const ProductLayouts& layouts,
                                       const ProductPlan& plan) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  EinsumExtents extents(e, call.inputs[0].shape, call.inputs[1].shape);
  bool accumulate = call.inputs.size() == 3;
  // Of the summed values all but the first add to what is there.
  std::string letters = plan.copies + plan.loop;
  Shape loop = extents.shape(letters);
  int64_t sums = extents.product(plan.loop);
  std::vector<ProductStep> steps;
  for (int64_t i = 0; i < loop.elements(); ++i) {
    ProductStep step{0, 0, 0, accumulate || i % sums > 0};
    int64_t rest = i;
    for (int axis = loop.rank() - 1; axis >= 0; --axis) {
      char letter = letters[static_cast<size_t>(axis)];
      int64_t index = rest % loop[axis];
      step.a += index * stride_of(e.a, layouts.a, letter);
      step.b += index * stride_of(e.b, layouts.b, letter);
      step.c += index * stride_of(e.out, layouts.out, letter);
      rest /= loop[axis];
    }
    steps.push_back(step);
  }
  return steps;
}

bool is_empty_product(const Call& call) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  EinsumExtents extents(e, call.inputs[0].shape, call.inputs[1].shape);
  return extents.product(e.out) == 0 || extents.product(e.k) == 0;
}

}  // namespace ridge::backends
