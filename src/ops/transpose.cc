// SPDX-License-Identifier: Apache-2.0
// transpose: a permutation of the axes; a view. Output axis i is input axis permutation[i].
#include <algorithm>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct TransposeOp {
  static Op declaration() {
    return {.name = "transpose",
            .category = OpCategory::kView,
            .kind = OpKind::kView,
            .attrs = {{"permutation", std::vector<int64_t>{}}}};
  }

  static std::vector<Type> infer(const Call& call) {
    const Shape& shape = call.inputs[0].shape;
    const std::vector<int64_t>& permutation = call.attrs.integers("permutation");
    std::vector<int64_t> sorted = permutation, dims;
    std::sort(sorted.begin(), sorted.end());
    bool valid = static_cast<int>(sorted.size()) == shape.rank();
    for (size_t i = 0; valid && i < sorted.size(); ++i)
      valid = sorted[i] == static_cast<int64_t>(i);
    if (!valid)
      throw usage_error("[transpose] expected a permutation of {} axes, got [{}]", shape.rank(),
                        fmt::join(permutation, ","));
    for (int64_t axis : permutation) dims.push_back(shape[static_cast<int>(axis)]);
    return {{call.inputs[0].dtype, Shape(dims)}};
  }

  static std::optional<Layout> view(const Call& call, const Layout& input) {
    Layout layout{input.offset, {}};
    for (int64_t axis : call.attrs.integers("permutation"))
      layout.strides.push_back(input.strides[static_cast<int>(axis)]);
    return layout;
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    const std::vector<int64_t>& permutation = call.node.attrs.integers("permutation");
    std::vector<int64_t> inverse(permutation.size());
    for (size_t i = 0; i < permutation.size(); ++i)
      inverse[static_cast<size_t>(permutation[i])] = static_cast<int64_t>(i);
    return {transpose(call.builder, call.output_gradients[0], inverse)};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    read_through(view, call, *inputs[0], outputs[0]);
  }

  static std::vector<Case> cases() {
    return {{"matrix", {{f32({5, 7})}}, {{"permutation", std::vector<int64_t>{1, 0}}}},
            {"heads", {{f32({2, 5, 3, 4})}}, {{"permutation", std::vector<int64_t>{0, 2, 1, 3}}}}};
  }
};

}  // namespace

const Op& transpose_op() { return op_from<TransposeOp>(); }

}  // namespace ridge::ops
