// SPDX-License-Identifier: Apache-2.0
// glu (composite): activation(gate) * up, both [N,F]; the activation is silu (SwiGLU) or gelu_tanh.
// Also its fused gradient.
#include "ops/glu.h"

#include <string>
#include <vector>

#include "ops/op_from.h"

namespace ridge::ops {

Pointwise glu_activation(const char* op, const std::string& name) {
  if (name != "silu" && name != "gelu_tanh")
    throw usage_error("[{}] expected the activation 'silu' or 'gelu_tanh', got '{}'", op, name);
  return *parse_pointwise(name);
}

Work glu_work(Pointwise activation, int64_t results) {
  const PointwiseInfo& row = info(activation);
  return arithmetic((row.flops + 1) * results, row.transcendentals * results);
}

namespace {

Pointwise activation(const Attrs& attrs) { return glu_activation("glu", attrs.text("activation")); }

Pointwise activation_backward(const Attrs& attrs) {
  return activation(attrs) == Pointwise::kSilu ? Pointwise::kSiluBackward
                                               : Pointwise::kGeluTanhBackward;
}

// The activation again, its slope, and two products.
Work backward_work(const Attrs& attrs, int64_t elements) {
  const PointwiseInfo& forward = info(activation(attrs));
  const PointwiseInfo& backward = info(activation_backward(attrs));
  return arithmetic((forward.flops + backward.flops + 2) * elements,
                    (forward.transcendentals + backward.transcendentals) * elements);
}

struct GluOp {
  static Op declaration() {
    return {.name = "glu",
            .category = OpCategory::kElementwise,
            .kind = OpKind::kComposite,
            .operands = {2},
            .attrs = {{"activation", std::string()}, {"fused", false, false}},
            .formula = "the activation's FLOPs (silu 4, gelu_tanh 8) and 1 an element"};
  }

  static std::vector<Type> infer(const Call& call) {
    expect_float("glu", call.inputs[0], "the gate");
    expect_same("glu", call.inputs[0], call.inputs[1], "gate and up");
    expect_rank("glu", call.inputs[0], 2, "the gate");
    activation(call.attrs);
    return {call.inputs[0]};
  }

  static Work work(const Call& call) {
    return glu_work(activation(call.attrs), call.inputs[0].shape.elements());
  }

  static ModelWork model_work(const Call& call) {
    return {work(call), backward_work(call.attrs, call.inputs[0].shape.elements())};
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    const Node& node = call.node;
    return call.builder.call_all("glu_backward",
                                 {call.output_gradients[0], node.inputs[0], node.inputs[1]},
                                 {{"activation", node.attrs.text("activation")}});
  }

  static std::vector<ValueId> expand(Builder& b, const Node& node) {
    return {mul(b, unary(b, node.attrs.text("activation"), node.inputs[0]), node.inputs[1])};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    for (size_t i = 0; i < outputs[0].data.size(); ++i)
      outputs[0].data[i] =
          evaluate(activation(call.attrs), inputs[0]->data[i], 0, 0) * inputs[1]->data[i];
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const char* name : {"silu", "gelu_tanh"})
      for (const Shape& shape : {Shape{1, 1}, Shape{3, 17}, Shape{5, 131}})
        cases.push_back({shape.str() + name,
                         {{f32(shape)}, {f32(shape)}},
                         {{"activation", std::string(name)}}});
    return cases;
  }
};

struct GluBackwardOp {
  static Op declaration() {
    return {
        .name = "glu_backward",
        .category = OpCategory::kElementwise,
        .kind = OpKind::kFused,
        .operands = {3},
        .attrs = {{"activation", std::string()}},
        .formula = "the activation and its slope (silu 4 + 9, gelu_tanh 8 + 18) and 2 an element"};
  }

  // Inputs dy, gate, up; outputs the gradients of gate and up.
  static std::vector<Type> infer(const Call& call) {
    expect_same("glu_backward", call.inputs[0], call.inputs[1], "dy and gate");
    expect_same("glu_backward", call.inputs[1], call.inputs[2], "gate and up");
    activation(call.attrs);
    return {call.inputs[1], call.inputs[2]};
  }

  static Work work(const Call& call) {
    return backward_work(call.attrs, call.inputs[0].shape.elements());
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    for (size_t i = 0; i < outputs[0].data.size(); ++i) {
      double dy = inputs[0]->data[i], gate = inputs[1]->data[i], up = inputs[2]->data[i];
      outputs[0].data[i] = evaluate(activation_backward(call.attrs), gate, dy * up, 0);
      outputs[1].data[i] = dy * evaluate(activation(call.attrs), gate, 0, 0);
    }
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (const char* name : {"silu", "gelu_tanh"})
      for (const Shape& shape : {Shape{1, 1}, Shape{5, 131}})
        cases.push_back({shape.str() + name,
                         {{f32(shape)}, {f32(shape)}, {f32(shape)}},
                         {{"activation", std::string(name)}}});
    return cases;
  }
};

}  // namespace

const Op& glu_op() { return op_from<GluOp>(); }

const Op& glu_backward_op() { return op_from<GluBackwardOp>(); }

}  // namespace ridge::ops
