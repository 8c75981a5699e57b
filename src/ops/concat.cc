// SPDX-License-Identifier: Apache-2.0
// concat: parts side by side along one axis. Free where the planner places the parts inside the
// output; the bytes counted are those of the parts that it could not place (cost/cost.h).
#include <algorithm>
#include <vector>

#include "ops/build.h"
#include "ops/infer.h"

namespace ridge::ops {
namespace {

std::vector<Type> infer(const Call& call) {
  const Type& first = call.inputs[0];
  int axis = expect_axis("concat", first.shape, call.attrs.integer("axis"));
  int64_t extent = 0;
  for (const Type& part : call.inputs) {
    bool fits = part.dtype == first.dtype && part.shape.rank() == first.shape.rank();
    for (int i = 0; fits && i < first.shape.rank(); ++i)
      fits = i == axis || part.shape[i] == first.shape[i];
    if (!fits)
      throw usage_error("[concat] {} and {} do not join along axis {}", first.str(), part.str(),
                        axis);
    extent += part.shape[axis];
  }
  return {{first.dtype, first.shape.with(axis, extent)}};
}

std::vector<ValueId> gradient(const GradientCall& call) {
  int axis = static_cast<int>(call.node.attrs.integer("axis"));
  std::vector<ValueId> parts;
  int64_t begin = 0;
  for (ValueId input : call.node.inputs) {
    int64_t end = begin + call.builder.shape(input)[axis];
    parts.push_back(slice(call.builder, call.output_gradients[0], axis, begin, end));
    begin = end;
  }
  return parts;
}

void reference(const Call& call,
               std::span<const Tensor64* const> inputs,
               std::span<Tensor64> outputs) {
  int axis = static_cast<int>(call.attrs.integer("axis"));
  const Shape& shape = call.outputs[0].shape;
  int64_t outer = 1, inner = 1;
  for (int i = 0; i < axis; ++i) outer *= shape[i];
  for (int i = axis + 1; i < shape.rank(); ++i) inner *= shape[i];
  auto out = outputs[0].data.begin();
  for (int64_t o = 0; o < outer; ++o)
    for (size_t p = 0; p < inputs.size(); ++p) {
      int64_t run = call.inputs[p].shape[axis] * inner;
      out = std::copy_n(inputs[p]->data.begin() + o * run, run, out);
    }
}

std::vector<Case> cases() {
  Attrs columns{{"axis", int64_t{1}}};
  return {{"columns", {{f32({5, 3})}, {f32({5, 17})}, {f32({5, 1})}}, columns},
          {"rows", {{f32({2, 7})}, {f32({3, 7})}}, {{"axis", int64_t{0}}}},
          {"pairs", {{f32({4, 3, 5, 1})}, {f32({4, 3, 5, 1})}}, {{"axis", int64_t{3}}}}};
}

}  // namespace

const Op& concat_op() {
  static const Op op{.name = "concat",
                     .min_inputs = 1,
                     .max_inputs = -1,
                     .attrs = {{"axis", int64_t{0}}},
                     .joins = true,
                     .formula = "no FLOPs; copies the parts that are not placed inside the output",
                     .infer = infer,
                     .gradient = gradient,
                     .reference = reference,
                     .cases = cases};
  return op;
}

}  // namespace ridge::ops
