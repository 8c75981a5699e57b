// SPDX-License-Identifier: Apache-2.0
// The reference of quantized_matmul against sums of operands that are rounded by construction: a
// value is a quant times its scale, and a rest of less than half a scale.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/random.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace ridge::ops {
namespace {

constexpr int64_t kTokens = 3, kIn = 64, kBlock = 32;

struct Rounded {
  std::vector<double> exact, rounded;

  void add(double to, double rest) {
    exact.push_back(to + rest);
    rounded.push_back(to);
  }
};

// Blocks of quants up to `steps`, the first of each block the largest, with a scale for each block.
Rounded quants(Random& random, uint32_t steps) {
  Rounded x;
  for (int64_t i = 0; i < kTokens * kIn; ++i) {
    const double scale = std::ldexp(1, -10 - static_cast<int>(i / kBlock));
    const bool is_largest = i % kBlock == 0;
    const double quant =
        is_largest ? steps : static_cast<double>(random.below(2 * steps - 1)) - (steps - 1);
    x.add((i % 2 == 0 ? 1 : -1) * scale * quant,
          is_largest ? 0 : 0.9 * scale * (random.uniform() - 0.5));
  }
  return x;
}

// Numbers of 8 significant bits.
Rounded bf16_numbers(Random& random, int64_t count) {
  Rounded x;
  for (int64_t i = 0; i < count; ++i) {
    const double scale = std::ldexp(1, static_cast<int>(random.below(6)) - 9);
    x.add((i % 3 == 0 ? -1 : 1) * scale * (129 + random.below(126)),
          0.9 * scale * (random.uniform() - 0.5));
  }
  return x;
}

// [tokens, out] of x [tokens, in] and weight [out, in].
std::vector<double> product(const std::vector<double>& x, const std::vector<double>& weight) {
  std::vector<double> y;
  for (size_t n = 0; n < x.size(); n += kIn)
    for (size_t f = 0; f < weight.size(); f += kIn) {
      y.push_back(0);
      for (size_t k = 0; k < kIn; ++k) y.back() += x[n + k] * weight[f + k];
    }
  return y;
}

TEST(QuantizedMatmul, ActivationsAreRoundedForWeightsInBlocksAlone) {
  Random random(11);
  const Op& op = table().at("quantized_matmul");
  for (const char* activations : {"f32", "i8", "i16", "bf16"}) {
    SCOPED_TRACE(activations);
    const bool is_f32 = std::string_view(activations) == "f32",
               is_i8 = std::string_view(activations) == "i8",
               is_bf16 = std::string_view(activations) == "bf16";
    const Rounded x = is_bf16 ? bf16_numbers(random, kTokens * kIn)
                      : is_i8 ? quants(random, 127)
                              : quants(random, 127 * 254);
    const std::vector<Type> types = {{DType::kF32, {kTokens, kIn}},
                                     {DType::kF32, {5, kIn}},
                                     {DType::kQ4_0, {4, kIn}},
                                     {DType::kBF16, {2, kIn}},
                                     {DType::kQ8_0, {7, kIn}}};
    std::vector<Tensor64> inputs = {{types[0], x.exact}};
    std::vector<std::vector<double>> want;
    for (size_t w = 1; w < types.size(); ++w) {
      const Rounded weight = bf16_numbers(random, types[w].shape.elements());
      inputs.push_back({types[w], weight.exact});
      const bool rounds = is_block(types[w].dtype) && !is_f32;
      want.push_back(
          product(rounds ? x.rounded : x.exact, rounds && is_bf16 ? weight.rounded : weight.exact));
    }
    const Attrs attrs = complete_attrs(op, {{"activations", std::string(activations)}});
    const std::vector<Type> result_types = op.infer({types, {}, attrs});
    std::vector<Tensor64> outputs;
    for (const Type& type : result_types)
      outputs.push_back({type, std::vector<double>(static_cast<size_t>(type.shape.elements()))});
    std::vector<const Tensor64*> in;
    for (const Tensor64& each : inputs) in.push_back(&each);
    op.reference({types, result_types, attrs}, in, outputs);
    ASSERT_EQ(outputs.size(), want.size());
    for (size_t w = 0; w < want.size(); ++w) {
      ASSERT_EQ(outputs[w].data.size(), want[w].size());
      for (size_t i = 0; i < want[w].size(); ++i)
        EXPECT_NEAR(outputs[w].data[i], want[w][i], 1e-9) << "weight " << w << ", element " << i;
    }
  }
}

TEST(QuantizedMatmul, GluIsTheActivationOfOneProductTimesTheOther) {
  Random random(7);
  const Op& op = table().at("quantized_matmul");
  const std::vector<Type> types = {
      {DType::kF32, {kTokens, kIn}}, {DType::kBF16, {5, kIn}}, {DType::kF32, {5, kIn}}};
  std::vector<std::vector<double>> values;
  for (const Type& type : types) {
    values.emplace_back();
    for (int64_t i = 0; i < type.shape.elements(); ++i)
      values.back().push_back(random.uniform() - 0.5);
  }
  const std::vector<Tensor64> inputs = {
      {types[0], values[0]}, {types[1], values[1]}, {types[2], values[2]}};
  const std::vector<double> gate = product(values[0], values[1]),
                            up = product(values[0], values[2]);
  const auto expect = [&](const char* glu, const auto& activation) {
    const Attrs attrs = complete_attrs(op, {{"glu", std::string(glu)}});
    const std::vector<Type> results = op.infer({types, {}, attrs});
    ASSERT_EQ(results.size(), 1u);
    EXPECT_EQ(results[0].shape, (Shape{kTokens, 5}));
    std::vector<Tensor64> y = {{results[0], std::vector<double>(gate.size())}};
    op.reference({types, results, attrs},
                 std::vector<const Tensor64*>{&inputs[0], &inputs[1], &inputs[2]}, y);
    for (size_t i = 0; i < gate.size(); ++i)
      EXPECT_NEAR(y[0].data[i], activation(gate[i]) * up[i], 1e-12) << glu << ' ' << i;
  };
  expect("silu", [](double x) { return x / (1 + std::exp(-x)); });
  expect("gelu_tanh", [](double x) {
    return x * (1 + std::tanh(std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x))) / 2;
  });
}

TEST(QuantizedMatmul, GluNeedsTwoWeightsOfOneShape) {
  const Op& op = table().at("quantized_matmul");
  const Type x = {DType::kF32, {kTokens, kIn}}, five = {DType::kF32, {5, kIn}},
             four = {DType::kF32, {4, kIn}};
  const auto infer = [&](std::vector<Type> types, const char* glu) {
    return op.infer({types, {}, complete_attrs(op, {{"glu", std::string(glu)}})});
  };
  EXPECT_EQ(infer({x, five, five}, "silu").size(), 1u);
  EXPECT_EQ(infer({x, five, four}, "").size(), 2u);
  for (const auto& [types, glu] :
       std::vector<std::pair<std::vector<Type>, const char*>>{{{x, five}, "silu"},
                                                              {{x, five, five, five}, "silu"},
                                                              {{x, five, four}, "silu"},
                                                              {{x, five, five}, "relu"}})
    EXPECT_THROW(infer(types, glu), Error) << types.size() << glu;
}

}  // namespace
}  // namespace ridge::ops
