// SPDX-License-Identifier: Apache-2.0
// rope (composite): rotates pairs of x[N,heads,E] by angles given by their cos and sin [N,E/2].
// Pairs are (x[2i], x[2i+1]) if interleaved, else (x[i], x[i+E/2]). If kept whole (attribute
// `fused`), its gradient is the inverse rotation (attribute `inverse`).
#include <vector>

#include "ops/op_from.h"
#include "ops/rotate.h"

namespace ridge::ops {

void Rotation::rotate(const double* x, double* y) const {
  int64_t half = head_size / 2;
  for (int64_t i = 0; i < half; ++i) {
    int64_t first = interleaved ? 2 * i : i;
    int64_t second = interleaved ? 2 * i + 1 : i + half;
    double s = inverse ? -sin[i] : sin[i];
    double a = x[first], b = x[second];
    y[first] = a * cos[i] - b * s;
    y[second] = b * cos[i] + a * s;
  }
}

namespace {

// The first and second elements of each pair as [N,heads,E/2] views.
std::vector<ValueId> split_pairs(Builder& b, ValueId x, bool interleaved) {
  const Shape shape = b.shape(x);
  int64_t half = shape[2] / 2;
  if (!interleaved) return {slice(b, x, 2, 0, half), slice(b, x, 2, half, shape[2])};
  ValueId pairs = reshape(b, x, {shape[0], shape[1], half, 2});
  Shape flat{shape[0], shape[1], half};
  return {reshape(b, slice(b, pairs, 3, 0, 1), flat), reshape(b, slice(b, pairs, 3, 1, 2), flat)};
}

struct RopeOp {
  static Op declaration() {
    return {.name = "rope",
            .category = OpCategory::kElementwise,
            .kind = OpKind::kComposite,
            .operands = {3},
            .attrs = {{"interleaved", false}, {"inverse", false, false}, {"fused", false, false}},
            .formula = "3 FLOPs an element: 4 products and 2 sums a pair"};
  }

  static std::vector<Type> infer(const Call& call) {
    const Type& x = call.inputs[0];
    expect_float("rope", x, "x");
    expect_rank("rope", x, 3, "x");
    int64_t e = x.shape[2];
    expect_even_head(e);
    for (size_t i = 1; i < 3; ++i) {
      expect_shape("rope", call.inputs[i], Shape{x.shape[0], e / 2}, "cos and sin");
      expect_dtype("rope", call.inputs[i], DType::kF32, "cos and sin");
    }
    return {x};
  }

  // A pair takes 4 products and 2 sums; rotating the gradient back costs the same.
  static Work work(const Call& call) { return arithmetic(3 * call.inputs[0].shape.elements()); }
  static ModelWork model_work(const Call& call) { return {work(call), work(call)}; }

  static std::vector<ValueId> expand(Builder& b, const Node& node) {
    const Shape shape = b.shape(node.inputs[0]);
    DType dtype = b.type(node.inputs[0]).dtype;
    bool interleaved = node.attrs.flag("interleaved");
    int64_t half = shape[2] / 2;
    Shape halves{shape[0], shape[1], half};
    auto table = [&](ValueId value) {
      return broadcast(b, reshape(b, cast(b, value, dtype), {shape[0], 1, half}), halves);
    };
    ValueId cos = table(node.inputs[1]);
    ValueId sin =
        table(node.attrs.flag("inverse") ? unary(b, "neg", node.inputs[2]) : node.inputs[2]);
    std::vector<ValueId> x = split_pairs(b, node.inputs[0], interleaved);
    ValueId first = sub(b, mul(b, x[0], cos), mul(b, x[1], sin));
    ValueId second = add(b, mul(b, x[1], cos), mul(b, x[0], sin));
    if (!interleaved) return {concat(b, {first, second}, 2)};
    Shape column{shape[0], shape[1], half, 1};
    return {
        reshape(b, concat(b, {reshape(b, first, column), reshape(b, second, column)}, 3), shape)};
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    Attrs attrs = call.node.attrs;
    attrs.set("inverse", !attrs.flag("inverse"));
    return {
        call.builder.call(
            "rope", {call.output_gradients[0], call.node.inputs[1], call.node.inputs[2]}, attrs),
        kNoValue, kNoValue};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const Shape& shape = call.inputs[0].shape;
    int64_t half = shape[2] / 2;
    for (int64_t n = 0; n < shape[0]; ++n)
      for (int64_t h = 0; h < shape[1]; ++h) {
        size_t at = static_cast<size_t>((n * shape[1] + h) * shape[2]);
        size_t table = static_cast<size_t>(n * half);
        Rotation{&inputs[1]->data[table], &inputs[2]->data[table], shape[2],
                 call.attrs.flag("interleaved"), call.attrs.flag("inverse")}
            .rotate(&inputs[0]->data[at], &outputs[0].data[at]);
      }
  }

  static std::vector<Case> cases() {
    std::vector<Case> cases;
    for (bool interleaved : {true, false})
      for (const Shape& shape : {Shape{1, 1, 2}, Shape{7, 3, 16}, Shape{5, 2, 34}}) {
        CaseInput table = fixed(f32({shape[0], shape[2] / 2}));
        cases.push_back({shape.str() + (interleaved ? "interleaved" : "halves"),
                         {{f32(shape)}, table, table},
                         {{"interleaved", interleaved}}});
      }
    return cases;
  }
};

}  // namespace

const Op& rope_op() { return op_from<RopeOp>(); }

}  // namespace ridge::ops
