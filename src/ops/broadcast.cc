// SPDX-License-Identifier: Apache-2.0
// broadcast: axes of extent 1 repeated to a larger shape of the same rank; a view with stride 0.
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct BroadcastOp {
  static Op declaration() {
    return {.name = "broadcast",
            .category = OpCategory::kView,
            .kind = OpKind::kView,
            .attrs = {{"shape", std::vector<int64_t>{}}}};
  }

  static std::vector<Type> infer(const Call& call) {
    const Shape& from = call.inputs[0].shape;
    Shape to(call.attrs.integers("shape"));
    bool fits = from.rank() == to.rank();
    for (int i = 0; fits && i < to.rank(); ++i) fits = from[i] == to[i] || from[i] == 1;
    if (!fits) throw usage_error("[broadcast] {} does not repeat to {}", from.str(), to.str());
    return {{call.inputs[0].dtype, to}};
  }

  static std::optional<Layout> view(const Call& call, const Layout& input) {
    Layout layout = input;
    for (int i = 0; i < call.outputs[0].shape.rank(); ++i)
      if (call.inputs[0].shape[i] != call.outputs[0].shape[i]) layout.strides[i] = 0;
    return layout;
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    const Shape from = call.builder.shape(call.node.inputs[0]);
    const Shape to = call.builder.shape(call.node.outputs[0]);
    std::vector<int64_t> axes;
    for (int i = 0; i < to.rank(); ++i)
      if (from[i] != to[i]) axes.push_back(i);
    return {reduce_sum(call.builder, call.output_gradients[0], axes)};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    read_through(view, call, *inputs[0], outputs[0]);
  }

  static std::vector<Case> cases() {
    return {{"rows", {{f32({1, 7})}}, {{"shape", std::vector<int64_t>{5, 7}}}},
            {"columns", {{f32({5, 1})}}, {{"shape", std::vector<int64_t>{5, 33}}}},
            {"middle", {{f32({3, 1, 4})}}, {{"shape", std::vector<int64_t>{3, 6, 4}}}}};
  }
};

}  // namespace

const Op& broadcast_op() { return op_from<BroadcastOp>(); }

}  // namespace ridge::ops
