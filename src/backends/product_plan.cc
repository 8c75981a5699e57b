// SPDX-License-Identifier: Apache-2.0
// Joins an einsum's letters into the axes of a product.
#include "backends/product_plan.h"

#include <fmt/format.h>

#include "graph/einsum_axes.h"

namespace ridge::backends {

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

namespace {

ProductPlan plan_product(const Call& call, const ProductLayouts& layouts, Chain chain) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  EinsumExtents extents(e, call.inputs[0].shape, call.inputs[1].shape);
  Lettered a{e.a, layouts.a}, b{e.b, layouts.b}, out{e.out, layouts.out};
  JoinedAxis m = join_letters(e.m, extents, a, out, chain),
             n = join_letters(e.n, extents, b, out, chain),
             k = join_letters(e.k, extents, a, b, chain);
  ProductPlan plan;
  plan.loop = k.rest;
  GemmShape& g = plan.gemm;
  for (char letter : e.batch + m.rest + n.rest) {
    if (a.step(letter) == 0 && b.step(letter) == 0 && extents[letter] > 1) {
      plan.copies += letter;
      continue;
    }
    g.batch.push_back(extents[letter]);
    g.a_batch.push_back(a.step(letter));
    g.b_batch.push_back(b.step(letter));
    g.c_batch.push_back(out.step(letter));
  }
  g.m = m.extent, g.n = n.extent, g.k = k.extent;
  g.a_m = m.first_step, g.c_m = m.second_step;
  g.b_n = n.first_step, g.c_n = n.second_step;
  g.a_k = k.first_step, g.b_k = k.second_step;
  g.input = call.inputs[0].dtype;
  g.output = call.outputs[0].dtype;
  return plan;
}

}  // namespace

ProductPlan plan_product(const Call& call, const ProductLayouts& layouts) {
  ProductPlan plan = plan_product(call, layouts, Chain::kLongest);
  const GemmShape& g = plan.gemm;
  bool is_dense =
      g.a().has_contiguous_axis() && g.b().has_contiguous_axis() && g.c().has_contiguous_axis();
  return is_dense ? plan : plan_product(call, layouts, Chain::kInnermost);
}

std::vector<ProductStep> product_steps(const Call& call,
                                       const ProductLayouts& layouts,
                                       const ProductPlan& plan) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  EinsumExtents extents(e, call.inputs[0].shape, call.inputs[1].shape);
  bool accumulate = call.inputs.size() == 3;
  // Along the summed letters, every product but the first adds to the existing result.
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
      step.a += index * Lettered{e.a, layouts.a}.step(letter);
      step.b += index * Lettered{e.b, layouts.b}.step(letter);
      step.c += index * Lettered{e.out, layouts.out}.step(letter);
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
