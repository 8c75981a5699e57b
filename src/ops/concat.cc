// SPDX-License-Identifier: Apache-2.0
// concat joins parts along one axis. It is free if the planner places the parts inside the output;
// only the bytes of the other parts are counted (cost/cost.h).
#include <algorithm>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct ConcatOp {
  static Op declaration() {
    return {.name = "concat",
            .category = OpCategory::kDataMovement,
            .operands = {1, kAnyNumber},
            .attrs = {{"axis", int64_t{0}}},
            .joins = true,
            .formula = "no FLOPs; copies the parts that are not placed inside the output"};
  }

  static std::vector<Type> infer(const Call& call) {
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

  static std::vector<ValueId> gradient(const GradientCall& call) {
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

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    int axis = static_cast<int>(call.attrs.integer("axis"));
    const Shape& shape = call.outputs[0].shape;
    auto [outer, inner] = around(shape, axis);
    auto out = outputs[0].data.begin();
    for (int64_t o = 0; o < outer; ++o)
      for (size_t p = 0; p < inputs.size(); ++p) {
        int64_t run = call.inputs[p].shape[axis] * inner;
        out = std::copy_n(inputs[p]->data.begin() + o * run, run, out);
      }
  }

  static std::vector<Case> cases() {
    Attrs columns{{"axis", int64_t{1}}};
    return {{"columns", {{f32({5, 3})}, {f32({5, 17})}, {f32({5, 1})}}, columns},
            {"rows", {{f32({2, 7})}, {f32({3, 7})}}, {{"axis", int64_t{0}}}},
            {"pairs", {{f32({4, 3, 5, 1})}, {f32({4, 3, 5, 1})}}, {{"axis", int64_t{3}}}}};
  }
};

}  // namespace

const Op& concat_op() { return op_from<ConcatOp>(); }

}  // namespace ridge::ops
