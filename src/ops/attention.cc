// SPDX-License-Identifier: Apache-2.0
// attention (composite): softmax(scale q k^T + mask) v over sequences of equal length, with grouped
// KV heads and an optional window, or inside the documents that share a row. It expands to an eager
// framework's S x S form.
#include "ops/attention.h"

#include <algorithm>
#include <cmath>

#include "ops/op_from.h"

namespace ridge::ops {

AttentionShape attention_shape(std::string_view op, const Call& call, size_t first_input) {
  const Type& q = call.inputs[first_input];
  const Type& k = call.inputs[first_input + 1];
  const Type& v = call.inputs[first_input + 2];
  expect_float(op, q, "q");
  expect_rank(op, q, 3, "q");
  expect_rank(op, k, 3, "k");
  expect_same(op, k, v, "k and v");
  int64_t t = call.attrs.integer("sequence");
  if (t <= 0 || q.shape[0] % t != 0)
    throw usage_error("[{}] expected tokens in sequences of {}, got {}", op, t, q.shape[0]);
  if (k.shape[0] != q.shape[0] || k.shape[2] != q.shape[2] || k.dtype != q.dtype)
    throw usage_error("[{}] expected k like q {}, got {}", op, q.str(), k.str());
  expect_head_groups(op, q.shape[1], k.shape[1]);
  int64_t window = call.attrs.integer("window");
  if (window < 0) throw usage_error("[{}] expected a window >= 0, got {}", op, window);
  // Counts for the full square must fit: forward and backward take 10 MACs, or 20 FLOPs, per
  // element.
  int64_t square = checked_product(q.shape.elements(), t, "attention");
  checked_product(square, 32, "attention");
  return {q.shape[0] / t, t,
          q.shape[1],     k.shape[1],
          q.shape[2],     call.attrs.flag("causal"),
          window,         call.attrs.real("scale")};
}

int document_positions(const Call& call, int index) {
  return std::ssize(call.inputs) > index ? index : -1;
}

void expect_document_positions(std::string_view op, const Call& call, int index) {
  if (document_positions(call, index) < 0) return;
  expect_type(op, call.inputs[static_cast<size_t>(index)], i32({call.inputs[0].shape[0]}),
              "positions");
  if (!call.attrs.flag("causal"))
    throw usage_error("[{}] expected causal attention with positions of documents", op);
}

int64_t document_begin(const Tensor64* positions, int64_t row, int64_t length, int64_t token) {
  if (positions == nullptr) return 0;
  auto position = static_cast<int64_t>(positions->data[static_cast<size_t>(row * length + token)]);
  return std::clamp<int64_t>(token - position, 0, token);
}

// MACs of the scores and the mix; per score: scale, max, subtract, exp, sum, divide.
Work attention_work(const AttentionShape& s, int64_t scores) {
  int64_t all = s.batch * s.heads * scores;
  return products(2 * all * s.head_size) + arithmetic(6 * all, 2 * all);
}

// Backward: MACs of dv, dp, dq and dk; per score 4 FLOPs for the gradient of softmax and 1 for the
// scale.
ModelWork attention_model_work(const AttentionShape& s) {
  int64_t keys = s.window > 0 ? std::min(s.sequence, s.window) : s.sequence;
  int64_t scores = s.sequence * keys, all = s.batch * s.heads * scores;
  return {attention_work(s, scores), products(4 * all * s.head_size) + arithmetic(5 * all)};
}

AttentionResults attention_reference(const AttentionShape& s,
                                     Inputs64 qkv,
                                     const Tensor64* positions) {
  const Tensor64 &q = *qkv[0], &k = *qkv[1], &v = *qkv[2];
  int64_t t_count = s.sequence, e_count = s.head_size, group = s.heads / s.kv_heads;
  int64_t rows = s.batch * t_count * s.heads;
  AttentionResults made;
  made.o.resize(static_cast<size_t>(rows * e_count));
  made.lse.resize(static_cast<size_t>(rows));
  made.probabilities.resize(static_cast<size_t>(rows * t_count));
  auto row = [&](int64_t b, int64_t t, int64_t h, int64_t heads) {
    return static_cast<size_t>((((b * t_count) + t) * heads + h) * e_count);
  };
  std::vector<double> p(static_cast<size_t>(t_count));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t h = 0; h < s.heads; ++h)
      for (int64_t i = 0; i < t_count; ++i) {
        const double* q_row = &q.data[row(b, i, h, s.heads)];
        const int64_t begin = document_begin(positions, b, t_count, i);
        double top = -INFINITY, sum = 0;
        for (int64_t j = 0; j < t_count; ++j) {
          const double* k_row = &k.data[row(b, j, h / group, s.kv_heads)];
          double score = 0;
          for (int64_t e = 0; e < e_count; ++e) score += q_row[e] * k_row[e];
          p[static_cast<size_t>(j)] = s.sees(i, j, begin) ? s.scale * score : -INFINITY;
          top = std::max(top, p[static_cast<size_t>(j)]);
        }
        for (double& each : p) sum += each = std::exp(each - top);
        double* o_row = &made.o[row(b, i, h, s.heads)];
        for (int64_t j = 0; j < t_count; ++j) {
          p[static_cast<size_t>(j)] /= sum;
          const double* v_row = &v.data[row(b, j, h / group, s.kv_heads)];
          for (int64_t e = 0; e < e_count; ++e) o_row[e] += p[static_cast<size_t>(j)] * v_row[e];
        }
        made.lse[static_cast<size_t>((b * t_count + i) * s.heads + h)] = top + std::log(sum);
        std::copy(p.begin(), p.end(),
                  made.probabilities.begin() + ((b * s.heads + h) * t_count + i) * t_count);
      }
  return made;
}

std::vector<AttrSpec> attention_attrs() {
  return {
      {"sequence", int64_t{0}}, {"causal", false}, {"window", int64_t{0}, false}, {"scale", 0.0}};
}

std::vector<Case> attention_cases() {
  struct AttentionSample {
    int64_t b, t, h, k, e, window;
    bool causal;
  };
  std::vector<Case> cases;
  for (AttentionSample r :
       {AttentionSample{1, 1, 1, 1, 8, 0, true}, AttentionSample{2, 7, 4, 2, 8, 0, true},
        AttentionSample{1, 17, 2, 1, 16, 5, true}, AttentionSample{1, 9, 3, 3, 24, 0, false},
        AttentionSample{1, 65, 2, 2, 8, 0, true}})
    cases.push_back(
        {fmt::format("b{}t{}h{}k{}e{}w{}{}", r.b, r.t, r.h, r.k, r.e, r.window,
                     r.causal ? "causal" : ""),
         {{f32({r.b * r.t, r.h, r.e})}, {f32({r.b * r.t, r.k, r.e})}, {f32({r.b * r.t, r.k, r.e})}},
         {{"sequence", r.t}, {"causal", r.causal}, {"window", r.window}, {"scale", 0.35}}});
  // Documents of equal length; those of the second row begin in the middle of one.
  struct Packed {
    int64_t t, window, document;
  };
  for (Packed r : {Packed{7, 0, 3}, {67, 0, 21}, {67, 5, 40}}) {
    Case packed{fmt::format("packed_t{}w{}d{}", r.t, r.window, r.document),
                {{f32({2 * r.t, 4, 8})}, {f32({2 * r.t, 2, 8})}, {f32({2 * r.t, 2, 8})}},
                {{"sequence", r.t}, {"causal", true}, {"window", r.window}, {"scale", 0.35}}};
    packed.inputs.push_back(
        {i32({2 * r.t}), {Fill::kPositions, static_cast<double>(r.document), false}, false});
    cases.push_back(packed);
  }
  return cases;
}

namespace {

struct AttentionOp {
  static Op declaration() {
    return {.name = "attention",
            .category = OpCategory::kAttention,
            .kind = OpKind::kComposite,
            .operands = {3, 4},
            .attrs = attention_attrs(),
            .formula = "MACs = 2 B H T T E; 6 FLOPs a score besides",
            .cases = attention_cases};
  }

  static std::vector<Type> infer(const Call& call) {
    attention_shape("attention", call);
    expect_document_positions("attention", call, kForwardPositions);
    return {call.inputs[0]};
  }

  static Work work(const Call& call) {
    AttentionShape shape = attention_shape("attention", call);
    return attention_work(shape, shape.sequence * shape.sequence);
  }

  static ModelWork model_work(const Call& call) {
    return attention_model_work(attention_shape("attention", call));
  }

  // q [N,H,E] as [B,T,K,G,E]: the group axis G avoids repeating KV heads.
  static std::vector<ValueId> expand(Builder& b, const Node& node) {
    CallTypes types(b.graph(), node);
    AttentionShape s = attention_shape("attention", types.call());
    int64_t group = s.heads / s.kv_heads;
    Shape keys{s.batch, s.sequence, s.kv_heads, s.head_size};
    ValueId q = reshape(b, node.inputs[0], {s.batch, s.sequence, s.kv_heads, group, s.head_size});
    ValueId k = reshape(b, node.inputs[1], keys);
    ValueId v = reshape(b, node.inputs[2], keys);
    ValueId scores = scale(b, matmul(b, "btkge,bske->bkgts", q, k), s.scale);
    std::vector<ValueId> masked{scores};
    masked.insert(masked.end(), node.inputs.begin() + kForwardPositions, node.inputs.end());
    if (s.causal) scores = b.call("causal_mask", masked, {{"window", s.window}});
    ValueId probabilities = b.call("softmax", {scores});
    ValueId mixed = matmul(b, "bkgts,bske->btkge", probabilities, v);
    return {reshape(b, mixed, b.shape(node.inputs[0]))};
  }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    const Tensor64* positions =
        document_positions(call, kForwardPositions) < 0 ? nullptr : inputs[kForwardPositions];
    outputs[0].data = attention_reference(attention_shape("attention", call), inputs, positions).o;
  }
};

}  // namespace

const Op& attention_op() { return op_from<AttentionOp>(); }

}  // namespace ridge::ops
