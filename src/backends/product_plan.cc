// SPDX-License-Identifier: Apache-2.0
// Joining an einsum's letters into the axes of a product.
#include "backends/product_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

namespace ridge::backends {
namespace {

// An operand's letters with its strides; 0 for a letter that it lacks.
struct Lettered {
  const std::string& letters;
  const Strides& strides;
  int64_t step(char letter) const {
    size_t at = letters.find(letter);
    return at == std::string::npos ? 0 : strides[static_cast<int>(at)];
  }
};

enum class Choice : uint8_t { kLongest, kInnermost };

// A set of letters that acts as one axis in two operands: extent and stride in each.
struct Axis {
  int64_t extent = 1;
  int64_t in_first = 0;
  int64_t in_second = 0;
};

// The letters of a sum or of a result's axis: one axis of the product, and those that do not join
// it.
struct Joined {
  Axis axis;
  std::string rest;
};

// The letters that continue `first_letter` with even steps in both operands, inwards to outwards.
Joined chain(const std::string& order,
             size_t first_letter,
             const EinsumExtents& extents,
             const std::function<Axis(char)>& axis_of) {
  Joined joined{axis_of(order[first_letter]), ""};
  Axis& axis = joined.axis;
  for (size_t i = 0; i < order.size(); ++i) {
    if (i == first_letter) continue;
    Axis next = axis_of(order[i]);
    bool joins = i > first_letter && next.in_first == axis.in_first * axis.extent &&
                 next.in_second == axis.in_second * axis.extent;
    if (joins)
      axis.extent *= extents[order[i]];
    else
      joined.rest.insert(joined.rest.begin(), order[i]);
  }
  return joined;
}

// Joins letters into one axis that steps evenly in both operands: the longest there is, for what
// does not join is computed one value after the other; or the innermost, which is dense where any
// is.
Joined join(const std::string& letters,
            const EinsumExtents& extents,
            const Lettered& first,
            const Lettered& second,
            Choice choice) {
  std::string order;  // by the step in the first operand, innermost first
  for (char letter : letters)
    if (extents[letter] > 1) order += letter;
  std::stable_sort(order.begin(), order.end(),
                   [&](char x, char y) { return first.step(x) < first.step(y); });
  // A single element: any stride does; 1 keeps the descriptor dense.
  if (order.empty()) return {{1, 1, 1}, ""};
  auto axis_of = [&](char letter) {
    return Axis{extents[letter], first.step(letter), second.step(letter)};
  };
  Joined best = chain(order, 0, extents, axis_of);
  for (size_t i = 1; choice == Choice::kLongest && i < order.size(); ++i) {
    Joined other = chain(order, i, extents, axis_of);
    if (other.axis.extent > best.axis.extent) best = other;
  }
  return best;
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

namespace {

bool has_dense_axis(int64_t rows, int64_t row_step, int64_t columns, int64_t column_step) {
  return rows == 1 || columns == 1 || row_step == 1 || column_step == 1;
}

ProductPlan plan_product(const Call& call, const ProductLayouts& layouts, Choice choice) {
  Einsum e = parse_einsum(call.attrs.text("einsum"));
  EinsumExtents extents(e, call.inputs[0].shape, call.inputs[1].shape);
  Lettered a{e.a, layouts.a}, b{e.b, layouts.b}, out{e.out, layouts.out};
  Joined m = join(e.m, extents, a, out, choice), n = join(e.n, extents, b, out, choice),
         k = join(e.k, extents, a, b, choice);
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
  g.m = m.axis.extent, g.n = n.axis.extent, g.k = k.axis.extent;
  g.a_m = m.axis.in_first, g.c_m = m.axis.in_second;
  g.b_n = n.axis.in_first, g.c_n = n.axis.in_second;
  g.a_k = k.axis.in_first, g.b_k = k.axis.in_second;
  g.input = call.inputs[0].dtype;
  g.output = call.outputs[0].dtype;
  return plan;
}

}  // namespace

ProductPlan plan_product(const Call& call, const ProductLayouts& layouts) {
  ProductPlan plan = plan_product(call, layouts, Choice::kLongest);
  const GemmShape& g = plan.gemm;
  bool is_dense = has_dense_axis(g.m, g.a_m, g.k, g.a_k) &&
                  has_dense_axis(g.k, g.b_k, g.n, g.b_n) && has_dense_axis(g.m, g.c_m, g.n, g.c_n);
  return is_dense ? plan : plan_product(call, layouts, Choice::kInnermost);
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
