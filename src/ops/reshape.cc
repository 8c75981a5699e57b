// SPDX-License-Identifier: Apache-2.0
// reshape: the same elements in row-major order with another shape; a view if the layout allows it.
#include <tuple>
#include <utility>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct ReshapeOp {
  static Op declaration() {
    return {.name = "reshape",
            .category = OpCategory::kView,
            .kind = OpKind::kView,
            .attrs = {{"shape", std::vector<int64_t>{}}}};
  }

  static std::vector<Type> infer(const Call& call) {
    Shape shape(call.attrs.integers("shape"));
    if (shape.elements() != call.inputs[0].shape.elements())
      throw usage_error("[reshape] expected {} elements, got {}", call.inputs[0].shape.str(),
                        shape.str());
    return {{call.inputs[0].dtype, shape}};
  }

  // Traverses both shapes from the last axis. `left` elements, `step` apart, are not yet assigned
  // to output axes. If an output axis needs more than those, the next outer input axis must
  // continue the same step.
  static std::optional<Layout> view(const Call& call, const Layout& input) {
    const Shape& from = call.inputs[0].shape;
    const Shape& to = call.outputs[0].shape;
    Layout layout{input.offset, dense_strides(to)};
    if (from.elements() == 0 || is_dense(from, input)) return layout;
    std::vector<std::pair<int64_t, int64_t>> axes;  // extent and stride where the extent is not 1
    for (int axis = 0; axis < from.rank(); ++axis)
      if (from[axis] != 1) axes.emplace_back(from[axis], input.strides[axis]);
    int64_t left = 1, step = 0;
    for (int axis = to.rank() - 1; axis >= 0; --axis) {
      if (left == 1 && !axes.empty()) {
        std::tie(left, step) = axes.back();
        axes.pop_back();
      }
      while (left % to[axis] != 0) {
        if (axes.empty() || axes.back().second != step * left) return std::nullopt;
        left *= axes.back().first;
        axes.pop_back();
      }
      layout.strides[axis] = to[axis] == 1 ? 0 : step;
      left /= to[axis];
      step *= to[axis];
    }
    return layout;
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    return {
        reshape(call.builder, call.output_gradients[0], call.builder.shape(call.node.inputs[0]))};
  }

  static void reference(const Call&, Inputs64 inputs, Outputs64 outputs) {
    outputs[0].data = inputs[0]->data;
  }

  static std::vector<Case> cases() {
    return {{"split", {{f32({6, 35})}}, {{"shape", std::vector<int64_t>{2, 3, 5, 7}}}},
            {"merge", {{f32({3, 1, 4})}}, {{"shape", std::vector<int64_t>{12}}}}};
  }
};

}  // namespace

const Op& reshape_op() { return op_from<ReshapeOp>(); }

}  // namespace ridge::ops
