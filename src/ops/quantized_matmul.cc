// SPDX-License-Identifier: Apache-2.0
// quantized_matmul: the product of x[N,in] and a quantized weight W[out,in], which stays as a file
// stores it (blocks, f16, bf16; f32 too). One launch may multiply x with several weights of any
// types, with one result [N,out] each; they are not concatenated. With activations "i16" or "i8",
// x is rounded to int16 or int8 for weights in blocks, with a scale for each row and a power of
// two for each 32 elements; with "bf16", x and the weights in blocks are rounded to bf16. Sums are
// always in fp32. The epilogue `glu`, "silu" or "gelu_tanh", takes two weights of one shape and
// has one result [N,out], the activation of the first product times the second. Inference only: it
// has no gradient.
#include <algorithm>
#include <cmath>
#include <optional>
#include <vector>

#include "base/bf16.h"
#include "ops/glu.h"
#include "ops/op_from.h"

namespace ridge::ops {
namespace {

constexpr const char* kOp = "quantized_matmul";

// Rounds each row of `in` elements to multiples of its largest magnitude / steps, and each block
// of 32 of them to multiples of that / 2^n, with the largest n for which its largest magnitude is
// still no more than `steps` of them.
std::vector<double> rounded_to_quants(std::vector<double> x, size_t in, double steps) {
  constexpr size_t kBlock = 32;
  constexpr int kMostHalvings = 40;
  const auto top_of = [&](size_t begin, size_t count) {
    double top = 0;
    for (size_t i = begin; i < begin + count; ++i) top = std::max(top, std::abs(x[i]));
    return top;
  };
  for (size_t row = 0; row < x.size(); row += in) {
    const double top_of_row = top_of(row, in);
    if (top_of_row == 0) continue;
    for (size_t begin = row; begin < row + in; begin += kBlock) {
      double scale = top_of_row / steps;
      const double top = top_of(begin, kBlock);
      for (int n = 0; n < kMostHalvings && top <= scale / 2 * steps; ++n) scale /= 2;
      for (size_t i = begin; i < begin + kBlock; ++i) x[i] = scale * std::nearbyint(x[i] / scale);
    }
  }
  return x;
}

std::vector<double> rounded_to_bf16(std::vector<double> x) {
  for (double& each : x) each = bf16_to_float(float_to_bf16(static_cast<float>(each)));
  return x;
}

std::optional<Pointwise> glu_of(const Call& call) {
  const std::string& glu = call.attrs.text("glu");
  return glu.empty() ? std::nullopt : std::optional(glu_activation(kOp, glu));
}

struct QuantizedMatmulOp {
  static Op declaration() {
    return {.name = kOp,
            .category = OpCategory::kMatmul,
            .operands = {2, kAnyNumber},
            .attrs = {{"activations", std::string("f32"), false},
                      {"batch_invariant", false, false},
                      {"glu", std::string(), false}},
            .formula = "MACs = N in times the weights' outs; with a GLU, FLOPs as of glu"};
  }

  static std::vector<Type> infer(const Call& call) {
    const Type& x = call.inputs[0];
    expect_rank(kOp, x, 2, "x");
    expect_dtype(kOp, x, DType::kF32, "x");
    const std::string& activations = call.attrs.text("activations");
    if (activations != "f32" && activations != "i8" && activations != "i16" &&
        activations != "bf16")
      throw usage_error("[{}] expected activations f32, i8, i16 or bf16, got '{}'", kOp,
                        activations);
    std::vector<Type> products;
    for (const Type& weight : call.inputs.subspan(1)) {
      expect_shape(kOp, weight, {weight.shape.rank() == 2 ? weight.shape[0] : 0, x.shape[1]},
                   "a weight");
      if (!is_block(weight.dtype)) expect_float(kOp, weight, "a weight");
      checked_product(checked_product(x.shape[0], weight.shape[0], kOp), 4 * x.shape[1] + 4, kOp);
      products.push_back(f32({x.shape[0], weight.shape[0]}));
    }
    if (!glu_of(call)) return products;
    if (products.size() != 2)
      throw usage_error("[{}] expected two weights of a GLU, got {}", kOp, products.size());
    expect_shape(kOp, call.inputs[2], call.inputs[1].shape, "the second weight of a GLU");
    return {products[0]};
  }

  static Work work(const Call& call) {
    Work sum;
    for (const Type& weight : call.inputs.subspan(1))
      sum += products(call.inputs[0].shape[0] * weight.shape.elements());
    if (const auto glu = glu_of(call))
      sum += glu_work(*glu, call.inputs[0].shape[0] * call.inputs[1].shape[0]);
    return sum;
  }

  static ModelWork model_work(const Call& call) { return {work(call), {}}; }

  static void reference(const Call& call, Inputs64 inputs, Outputs64 outputs) {
    size_t tokens = static_cast<size_t>(call.inputs[0].shape[0]),
           in = static_cast<size_t>(call.inputs[0].shape[1]);
    const std::string& activations = call.attrs.text("activations");
    bool to_bf16 = activations == "bf16";
    const std::vector<double>& exact = inputs[0]->data;
    // 16 bits are 127 steps of a first quant, each divided into 254 steps of a second quant.
    std::vector<double> coarse = activations == "i8"    ? rounded_to_quants(exact, in, 127)
                                 : activations == "i16" ? rounded_to_quants(exact, in, 127 * 254)
                                 : to_bf16              ? rounded_to_bf16(exact)
                                                        : exact;
    const auto product = [&](size_t w) {
      bool in_blocks = is_block(call.inputs[w].dtype);
      const std::vector<double>& x = in_blocks ? coarse : exact;
      std::vector<double> weight =
          in_blocks && to_bf16 ? rounded_to_bf16(inputs[w]->data) : inputs[w]->data;
      size_t out = static_cast<size_t>(call.inputs[w].shape[0]);
      std::vector<double> y(tokens * out);
      for (size_t n = 0; n < tokens; ++n)
        for (size_t f = 0; f < out; ++f)
          for (size_t k = 0; k < in; ++k) y[n * out + f] += x[n * in + k] * weight[f * in + k];
      return y;
    };
    for (size_t o = 0; o < outputs.size(); ++o) outputs[o].data = product(o + 1);
    if (const auto glu = glu_of(call)) {
      const std::vector<double> up = product(2);
      for (size_t i = 0; i < up.size(); ++i)
        outputs[0].data[i] = evaluate(*glu, outputs[0].data[i], 0, 0) * up[i];
    }
  }

  static std::vector<Case> cases() {
    struct QuantizedMatmulSample {
      const char* name;
      int64_t tokens, in;
      std::vector<std::pair<int64_t, DType>> weights;
    };
    std::vector<Case> cases;
    for (const QuantizedMatmulSample& r :
         {QuantizedMatmulSample{"one", 1, 1, {{1, DType::kBF16}}},
          QuantizedMatmulSample{"mixed", 3, 24, {{5, DType::kBF16}, {31, DType::kF32}}},
          QuantizedMatmulSample{
              "chunk", 40, 65, {{33, DType::kF32}, {7, DType::kBF16}, {16, DType::kBF16}}}}) {
      Case each{r.name, {fixed(f32({r.tokens, r.in}))}, {}};
      for (const auto& [out, dtype] : r.weights) each.inputs.push_back(fixed({dtype, {out, r.in}}));
      cases.push_back(std::move(each));
    }
    Case invariant = cases[1];
    invariant.name = "batch_invariant";
    invariant.attrs.set("batch_invariant", true);
    cases.push_back(invariant);
    return cases;
  }
};

}  // namespace

const Op& quantized_matmul_op() { return op_from<QuantizedMatmulOp>(); }

}  // namespace ridge::ops
