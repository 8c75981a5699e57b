// SPDX-License-Identifier: Apache-2.0
// causal_mask: in scores [B,...,Tq,Tkv], key j is hidden from query i if j > i, or j <= i - window
// (window 0: no window), or if it is of an earlier document by the optional positions i32[B Tq].
// Hidden scores become `value`: -inf before a softmax, 0 in its gradient. No arithmetic is counted,
// because it is a selection.
#include <algorithm>
#include <limits>
#include <vector>

#include "ops/attention.h"
#include "ops/op_from.h"

namespace ridge::ops {
namespace {

struct CausalMaskOp {
  static Op declaration() {
    return {.name = "causal_mask",
            .category = OpCategory::kSoftmaxAndLoss,
            .operands = {1, 2},
            .attrs = {{"window", int64_t{0}, false},
                      {"value", -std::numeric_limits<double>::infinity(), false}},
            .formula = "no FLOPs: a selection"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_float("causal_mask", call.inputs[0], "the scores");
    const Shape& shape = call.inputs[0].shape;
    if (shape.rank() < 2 || shape[shape.rank() - 2] != shape.back())
      throw usage_error("[causal_mask] expected as many queries as keys, got {}", shape.str());
    if (call.attrs.integer("window") < 0)
      throw usage_error("[causal_mask] expected a window >= 0, got {}",
                        call.attrs.integer("window"));
    if (call.inputs.size() > 1) {
      if (shape.rank() < 3)
        throw usage_error("[causal_mask] expected scores [B,...,T,T] with positions, got {}",
                          shape.str());
      expect_type("causal_mask", call.inputs[1], i32({shape[0] * shape.back()}), "positions");
    }
    return {call.inputs[0]};
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    Attrs attrs = call.node.attrs;
    attrs.set("value", 0.0);
    std::vector<ValueId> inputs = call.node.inputs;
    inputs[0] = call.output_gradients[0];
    std::vector<ValueId> gradients(inputs.size(), kNoValue);
    gradients[0] = call.builder.call("causal_mask", inputs, attrs);
    return gradients;
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const Shape& shape = call.inputs[0].shape;
    const Tensor64* positions = call.inputs.size() > 1 ? inputs[1] : nullptr;
    int64_t t = shape.back(),
            of_row = std::max<int64_t>(shape.elements() / std::max<int64_t>(shape[0], 1), 1);
    int64_t window = call.attrs.integer("window");
    for (size_t i = 0; i < outputs[0].data.size(); ++i) {
      int64_t query = static_cast<int64_t>(i) / t % t, key = static_cast<int64_t>(i) % t;
      int64_t begin = document_begin(positions, static_cast<int64_t>(i) / of_row, t, query);
      bool hidden = key > query || key < begin || (window > 0 && key <= query - window);
      outputs[0].data[i] = hidden ? call.attrs.real("value") : inputs[0]->data[i];
    }
  }

  static std::vector<Case> cases() {
    auto documents = [](int64_t tokens, int64_t length) {
      return CaseInput{
          i32({tokens}), {Fill::kPositions, static_cast<double>(length), false}, false};
    };
    auto attrs = [](int64_t window) { return Attrs{{"window", window}, {"value", -2.0}}; };
    return {{"square", {{f32({2, 3, 7, 7})}}, attrs(0)},
            {"window", {{f32({2, 67, 67})}}, attrs(5)},
            {"one", {{f32({1, 1})}}, attrs(0)},
            {"packed", {{f32({2, 3, 7, 7})}, documents(14, 3)}, attrs(0)},
            {"packed_window", {{f32({2, 67, 67})}, documents(134, 21)}, attrs(5)}};
  }
};

}  // namespace

const Op& causal_mask_op() { return op_from<CausalMaskOp>(); }

}  // namespace ridge::ops
