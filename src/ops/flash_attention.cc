// SPDX-License-Identifier: Apache-2.0
// flash_attention, made by the pass of that name: attention in tiles that never writes the S x S
// matrix. Outputs o [N,H,E] and lse f32[N,H]. Its gradient recomputes the probabilities from lse.
// Tiles that are fully masked are skipped: `scores` and `scores_backward` are the numbers of scores
// that a head computes for one sequence. Kernels may compute dQ in a pass of its own, which
// computes `scores_recomputed` scores again (0: there is no such pass).
#include <algorithm>
#include <vector>

#include "ops/attention.h"
#include "ops/op_from.h"

namespace ridge::ops {
namespace {

// 0 means not yet known for a target: the full square is counted.
int64_t scores(const Call& call, const AttentionShape& s, std::string_view attr) {
  int64_t known = call.attrs.integer(attr);
  return known > 0 ? known : s.sequence * s.sequence;
}

}  // namespace

int64_t flash_backward_scores(const Call& call) {
  AttentionShape s = attention_shape("flash_attention_backward", call, 1);
  return s.batch * s.heads * scores(call, s, "scores_backward");
}

namespace {

std::vector<AttrSpec> attrs() {
  std::vector<AttrSpec> specs = attention_attrs();
  specs.push_back({"scores", int64_t{0}, false});
  specs.push_back({"scores_backward", int64_t{0}, false});
  specs.push_back({"scores_recomputed", int64_t{0}, false});
  return specs;
}

struct FlashAttentionOp {
  static Op declaration() {
    return {.name = "flash_attention",
            .category = OpCategory::kAttention,
            .kind = OpKind::kFused,
            .operands = {3, 4},
            .attrs = attrs(),
            .time_law = TimeLaw::kAttention,
            .formula =
                "MACs = 2 B H S E for the S scores a head that its tiles compute; 6 FLOPs "
                "a score and 2 a row besides",
            .cases = attention_cases};
  }

  static std::vector<Type> infer(const Call& call) {
    AttentionShape s = attention_shape("flash_attention", call);
    expect_document_positions("flash_attention", call, kForwardPositions);
    return {call.inputs[0], f32({s.batch * s.sequence, s.heads})};
  }

  // As attention; per row a log and an addition for lse.
  static Work work(const Call& call) {
    AttentionShape s = attention_shape("flash_attention", call);
    int64_t rows = s.batch * s.sequence * s.heads;
    return attention_work(s, scores(call, s, "scores")) + arithmetic(2 * rows, rows);
  }

  static std::vector<ValueId> gradient(const GradientCall& call) {
    const Node& n = call.node;
    std::vector<ValueId> inputs{call.output_gradients[0],
                                n.inputs[0],
                                n.inputs[1],
                                n.inputs[2],
                                n.outputs[0],
                                n.outputs[1]};
    const bool is_packed = n.inputs.size() > kForwardPositions;
    if (is_packed) inputs.push_back(n.inputs[kForwardPositions]);
    std::vector<ValueId> gradients =
        call.builder.call_all("flash_attention_backward", inputs, n.attrs);
    if (is_packed) gradients.push_back(kNoValue);
    return gradients;
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const Tensor64* positions =
        document_positions(call, kForwardPositions) < 0 ? nullptr : inputs[kForwardPositions];
    AttentionResults made =
        attention_reference(attention_shape("flash_attention", call), inputs, positions);
    outputs[0].data = std::move(made.o);
    outputs[1].data = std::move(made.lse);
  }
};

struct FlashAttentionBackwardOp {
  static Op declaration() {
    // Its inputs o and lse must be consistent with q, k and v, so it has no cases of its own; the
    // gradient test of flash_attention covers it.
    return {
        .name = "flash_attention_backward",
        .category = OpCategory::kAttention,
        .kind = OpKind::kFused,
        .operands = {6, 7},
        .attrs = attrs(),
        .time_law = TimeLaw::kAttentionBackward,
        .formula =
            "MACs = 5 B H S E, or 4 B H S E + 3 B H R E for R scores recomputed for dq; 6 FLOPs a "
            "score and 2 an element of do besides"};
  }

  // Inputs do, q, k, v, o, lse and perhaps positions; outputs dq, dk, dv.
  static std::vector<Type> infer(const Call& call) {
    AttentionShape s = attention_shape("flash_attention_backward", call, 1);
    expect_same("flash_attention_backward", call.inputs[0], call.inputs[1], "do and q");
    expect_same("flash_attention_backward", call.inputs[4], call.inputs[1], "o and q");
    expect_type("flash_attention_backward", call.inputs[5], f32({s.batch * s.sequence, s.heads}),
                "lse");
    expect_document_positions("flash_attention_backward", call, kBackwardPositions);
    return {call.inputs[1], call.inputs[2], call.inputs[3]};
  }

  // MACs of the scores again, dp, dv, dk and dq, the first two twice with a pass of its own for dq.
  // Each time per score: scale, subtract lse, exp, subtract delta, multiply, scale. Per element of
  // do its product with o and their sum, delta.
  static Work work(const Call& call) {
    AttentionShape s = attention_shape("flash_attention_backward", call, 1);
    int64_t count = flash_backward_scores(call),
            again = s.batch * s.heads * call.attrs.integer("scores_recomputed");
    return products((again > 0 ? 4 * count + 3 * again : 5 * count) * s.head_size) +
           arithmetic(6 * (count + again), count + again) +
           arithmetic(2 * call.inputs[0].shape.elements());
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    AttentionShape s = attention_shape("flash_attention_backward", call, 1);
    const Tensor64 &d_o = *inputs[0], &q = *inputs[1], &k = *inputs[2], &v = *inputs[3];
    const Tensor64* positions =
        document_positions(call, kBackwardPositions) < 0 ? nullptr : inputs[kBackwardPositions];
    const auto [o, lse, p] = attention_reference(s, inputs.subspan(1), positions);
    for (Tensor64& output : outputs) std::fill(output.data.begin(), output.data.end(), 0.0);
    int64_t group = s.heads / s.kv_heads;
    auto row = [&](int64_t b, int64_t t, int64_t h, int64_t heads) {
      return static_cast<size_t>(((b * s.sequence + t) * heads + h) * s.head_size);
    };
    for (int64_t b = 0; b < s.batch; ++b)
      for (int64_t h = 0; h < s.heads; ++h)
        for (int64_t i = 0; i < s.sequence; ++i) {
          size_t qi = row(b, i, h, s.heads);
          double delta = 0;
          for (int64_t e = 0; e < s.head_size; ++e) delta += d_o.data[qi + e] * o[qi + e];
          for (int64_t j = 0; j < s.sequence; ++j) {
            size_t kj = row(b, j, h / group, s.kv_heads);
            double weight =
                p[static_cast<size_t>(((b * s.heads + h) * s.sequence + i) * s.sequence + j)];
            double dp = 0;
            for (int64_t e = 0; e < s.head_size; ++e) dp += d_o.data[qi + e] * v.data[kj + e];
            double ds = s.scale * weight * (dp - delta);
            for (int64_t e = 0; e < s.head_size; ++e) {
              outputs[0].data[qi + e] += ds * k.data[kj + e];
              outputs[1].data[kj + e] += ds * q.data[qi + e];
              outputs[2].data[kj + e] += weight * d_o.data[qi + e];
            }
          }
        }
  }
};

}  // namespace

const Op& flash_attention_op() { return op_from<FlashAttentionOp>(); }

const Op& flash_attention_backward_op() { return op_from<FlashAttentionBackwardOp>(); }

}  // namespace ridge::ops
