// SPDX-License-Identifier: Apache-2.0
// skinny_gemm, made by the pass fuse_skinny_gemm: a projection of a few rows with the ops before
// and after it, so that a step of a few tokens takes few kernels:
//   s = x, or x + rms_norm(delta) with `adds`;  z = s, or rms_norm(s) with `norms`;
//   y = z W^T;  y = activation(first half of y's columns) * second half, with `activation`;
//   y = y + residual with `residual`.
// Inputs: x [N,D], W [F,D], in x's type or in blocks, then what the attributes require: the norm's
// weight f32[D]; delta [N,D] and its norm's weight f32[D]; the residual [N,F or F/2]. Outputs: y,
// and s with `adds`. Inference only: it has no gradient.
#include <vector>

#include "base/pointwise.h"
#include "ops/glu.h"
#include "ops/op_from.h"
#include "ops/rms_norm.h"
#include "ops/skinny_gemm.h"

namespace ridge::ops {

SkinnyGemm skinny_gemm_shape(const Call& call) {
  constexpr const char* kOp = "skinny_gemm";
  const Type &x = call.inputs[0], &weight = call.inputs[1];
  SkinnyGemm p;
  size_t next = 2;
  auto take = [&](bool wanted) { return wanted ? static_cast<int>(next++) : -1; };
  const std::string& activation = call.attrs.text("activation");
  if (!activation.empty()) glu_activation(kOp, activation);
  bool adds = call.attrs.flag("adds");
  if (adds && !call.attrs.flag("norms")) throw usage_error("[{}] expected a sum to be normed", kOp);
  p.norm = take(call.attrs.flag("norms"));
  p.delta = take(adds);
  p.delta_norm = take(adds);
  p.residual = take(call.attrs.flag("residual"));
  if (call.inputs.size() != next)
    throw usage_error("[{}] expected {} operands, got {}", kOp, next, call.inputs.size());
  expect_float(kOp, x, "x");
  expect_rank(kOp, x, 2, "x");
  expect_rank(kOp, weight, 2, "the weight");
  const DType stored = is_block(weight.dtype) ? weight.dtype : x.dtype;
  expect_type(kOp, weight, {stored, {weight.shape[0], x.shape[1]}}, "the weight");
  for (int norm : {p.norm, p.delta_norm})
    if (norm >= 0) expect_rms_norm(kOp, x, call.inputs[static_cast<size_t>(norm)], call.attrs);
  if (adds) expect_same(kOp, x, call.inputs[static_cast<size_t>(p.delta)], "x and what is added");
  if (!activation.empty() && weight.shape[0] % 2 != 0)
    throw usage_error("[{}] expected gate and up, got {} rows", kOp, weight.shape[0]);
  checked_product(checked_product(x.shape[0], weight.shape[0], kOp), 2 * x.shape[1] + 32, kOp);
  p.tokens = x.shape[0], p.in = x.shape[1];
  p.out = activation.empty() ? weight.shape[0] : weight.shape[0] / 2;
  p.y = {result_dtype(kOp, call.attrs, x.dtype), {p.tokens, p.out}};
  if (p.residual >= 0)
    expect_type(kOp, call.inputs[static_cast<size_t>(p.residual)], p.y, "the residual");
  return p;
}

namespace {

struct SkinnyGemmOp {
  static Op declaration() {
    return {.name = "skinny_gemm",
            .category = OpCategory::kMatmul,
            .kind = OpKind::kFused,
            .operands = {2, 6},
            .attrs = {{"norms", false, false},
                      {"adds", false, false},
                      {"residual", false, false},
                      {"activation", std::string(), false},
                      {"dtype", std::string(), false},
                      {"eps", 0.0, false},
                      {"offset", 0.0, false}},
            .formula = "MACs = N D F; norms, sums and the activation as alone"};
  }

  static std::vector<Type> infer(const Call& call) {
    SkinnyGemm p = skinny_gemm_shape(call);
    return p.delta >= 0 ? std::vector<Type>{p.y, call.inputs[0]} : std::vector<Type>{p.y};
  }

  static Work work(const Call& call) {
    SkinnyGemm p = skinny_gemm_shape(call);
    Work sum = products(p.tokens * call.inputs[1].shape.elements());
    for (int norm : {p.norm, p.delta_norm})
      if (norm >= 0) sum += rms_norm_work(call.inputs[0].shape);
    if (p.delta >= 0) sum += arithmetic(call.inputs[0].shape.elements());
    int64_t results = p.tokens * p.out;
    if (auto activation = parse_pointwise(call.attrs.text("activation")))
      sum += glu_work(*activation, results);
    if (p.residual >= 0) sum += arithmetic(results);
    return sum;
  }
  static ModelWork model_work(const Call& call) { return {work(call), {}}; }

  static void reference(const Call& call, Inputs64 in, Outputs64 out) {
    SkinnyGemm p = skinny_gemm_shape(call);
    auto input = [&](int i) { return in[static_cast<size_t>(i)]->data.data(); };
    auto norm = [&](int weight, const double* x, std::vector<double>& y) {
      RmsNormRows{*in[static_cast<size_t>(weight)], call.attrs}.norm(x, y.data());
    };
    size_t d = static_cast<size_t>(p.in), width = static_cast<size_t>(p.out);
    auto activation = parse_pointwise(call.attrs.text("activation"));
    for (size_t n = 0; n < static_cast<size_t>(p.tokens); ++n) {
      std::vector<double> z(input(0) + n * d, input(0) + (n + 1) * d), normed(d);
      if (p.delta >= 0) {
        norm(p.delta_norm, input(p.delta) + n * d, normed);
        for (size_t i = 0; i < d; ++i) out[1].data[n * d + i] = z[i] += normed[i];
      }
      if (p.norm >= 0) {
        norm(p.norm, z.data(), normed);
        z = normed;
      }
      auto product = [&](size_t row) {
        double sum = 0;
        for (size_t i = 0; i < d; ++i) sum += z[i] * input(1)[row * d + i];
        return sum;
      };
      for (size_t f = 0; f < width; ++f) {
        double y = product(f);
        if (activation) y = evaluate(*activation, y, 0, 0) * product(width + f);
        if (p.residual >= 0) y += input(p.residual)[n * width + f];
        out[0].data[n * width + f] = y;
      }
    }
  }

  static std::vector<Case> cases() {
    struct SkinnyGemmSample {
      const char* name;
      int64_t tokens, in, rows;
      bool norms, adds, residual;
      const char* activation;
      const char* dtype;
    };
    std::vector<Case> cases;
    for (const SkinnyGemmSample& r :
         {SkinnyGemmSample{"plain", 1, 64, 33, false, false, false, "", ""},
          SkinnyGemmSample{"residual", 3, 96, 40, false, false, true, "", ""},
          SkinnyGemmSample{"norm", 2, 160, 48, true, false, false, "", ""},
          SkinnyGemmSample{"norm_swiglu", 1, 64, 70, true, false, false, "silu", ""},
          SkinnyGemmSample{"add_norm_geglu", 5, 96, 32, true, true, false, "gelu_tanh", ""},
          SkinnyGemmSample{"add_norm_wide", 8, 288, 530, true, true, false, "", "f32"},
          SkinnyGemmSample{"long_residual", 2, 4128, 40, false, false, true, "", ""},
          SkinnyGemmSample{"long_norm", 1, 2208, 33, true, false, false, "", "f32"},
          SkinnyGemmSample{"tens_swiglu", 20, 264, 400, false, false, false, "silu", ""},
          SkinnyGemmSample{"tens_geglu", 50, 520, 144, false, false, false, "gelu_tanh", "f32"}}) {
      CaseInput x = fixed(bf16({r.tokens, r.in})), norm = fixed(f32({r.in}));
      int64_t out = *r.activation != 0 ? r.rows / 2 : r.rows;
      Case each{r.name,
                {x, fixed(bf16({r.rows, r.in}), 0.1)},
                {{"norms", r.norms},
                 {"adds", r.adds},
                 {"residual", r.residual},
                 {"activation", std::string(r.activation)},
                 {"dtype", std::string(r.dtype)},
                 {"eps", 1e-3},
                 {"offset", r.adds ? 1.0 : 0.0}}};
      if (r.norms) each.inputs.push_back(norm);
      if (r.adds) each.inputs.insert(each.inputs.end(), {x, norm});
      if (r.residual) each.inputs.push_back(fixed(bf16({r.tokens, out})));
      cases.push_back(std::move(each));
    }
    return cases;
  }
};

}  // namespace

const Op& skinny_gemm_op() { return op_from<SkinnyGemmOp>(); }

}  // namespace ridge::ops
