// SPDX-License-Identifier: Apache-2.0
// Numbers that others published or assert, from graphs and closed forms. docs/accounting.md states
// the conventions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "backends/null/null_backend.h"
#include "cost/cost.h"
#include "cost/hardware.h"
#include "cost/resource_plan.h"
#include "graph/builder.h"
#include "models/config.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::cost {
namespace {

NodeCost cost_of(const Graph& graph) {
  auto target = backends::null::make_null_target();
  return total(node_costs(plan::plan(graph, *target)));
}

// A graph under construction with numbered inputs.
struct Sketch {
  Graph graph;
  Builder b{graph, ops::table()};
  ValueId input(Shape shape, DType dtype = DType::kF32) {
    return b.input(fmt::format("input.{}", graph.values.size()), {dtype, shape});
  }
  int64_t macs() const { return cost_of(graph).work.macs; }
};

// From the notebook of an efficient-AI course on GEMMs in fp32.
TEST(Accounting, ProductsOfTheLabNotebook) {
  auto product = [](int64_t m, int64_t k, int64_t n) {
    Sketch s;
    ops::matmul(s.b, "mk,kn->mn", s.input({m, k}), s.input({k, n}));
    return cost_of(s.graph);
  };
  EXPECT_EQ(product(512, 512, 512).work.macs, 134'217'728);
  EXPECT_EQ(product(512, 256, 512).work.macs, 67'108'864);
  EXPECT_EQ(product(512, 512, 512).work.flops, 2 * 134'217'728);
  EXPECT_EQ(product(512, 512, 512).bytes(), 3'145'728);
  EXPECT_EQ(product(512, 256, 512).bytes(), 2'097'152);
  EXPECT_EQ(product(128, 256, 512).bytes(), 917'504);
}

struct AttentionCase {
  int64_t b, h, q, kv, e;
};

Graph unfused_attention(const AttentionCase& c, const std::string& convention) {
  Sketch s;
  ValueId q = s.input({c.b, c.h, c.q, c.e}), k = s.input({c.b, c.h, c.kv, c.e}),
          v = s.input({c.b, c.h, c.kv, c.e});
  ValueId scores = ops::matmul(s.b, "bhqe,bhke->bhqk", q, k);
  ValueId weights = s.b.call("softmax", {scores}, {{"convention", convention}});
  ops::matmul(s.b, "bhqk,bhke->bhqe", weights, v);
  return s.graph;
}

TEST(Accounting, AttentionOfTheLabNotebook) {
  AttentionCase c{1, 4, 173, 256, 128};
  NodeCost cost = cost_of(unfused_attention(c, "three_pass_softmax"));
  EXPECT_EQ(cost.work.macs, 45'350'912);
  EXPECT_EQ(cost.work.macs, 2 * c.b * c.h * c.q * c.kv * c.e);
  EXPECT_EQ(cost.bytes(), 4 * (2 * c.b * c.h * c.q * c.e + 2 * c.b * c.h * c.kv * c.e +
                               7 * c.b * c.h * c.q * c.kv));
  // One kernel reads the scores once and writes them once: 4 passes over them in all.
  EXPECT_EQ(
      cost_of(unfused_attention(c, "")).bytes(),
      4 * (2 * c.b * c.h * c.q * c.e + 2 * c.b * c.h * c.kv * c.e + 4 * c.b * c.h * c.q * c.kv));
}

TEST(Accounting, GatedMlpWithGeluInBf16) {
  constexpr int64_t kB = 3, kL = 40, kD = 64, kF = 96;  // B, L, D, F of the formula
  Sketch s;
  ValueId x = s.input({kB * kL, kD}, DType::kBF16);
  auto weight = [&](Shape shape) { return s.input(shape, DType::kBF16); };
  ValueId gate = ops::matmul(s.b, "nd,fd->nf", x, weight({kF, kD}));
  ValueId up = ops::matmul(s.b, "nd,fd->nf", x, weight({kF, kD}));
  ValueId mixed = ops::mul(s.b, ops::unary(s.b, "gelu_tanh", gate), up);
  ops::matmul(s.b, "nf,df->nd", mixed, weight({kD, kF}));
  NodeCost cost = cost_of(s.graph);
  int64_t bld = kB * kL * kD, blf = kB * kL * kF, df = kD * kF;
  EXPECT_EQ(cost.work.flops, 6 * kB * kL * kD * kF + 9 * kB * kL * kF);
  EXPECT_EQ(cost.bytes(), 2 * (2 * (bld + df + blf)) + 4 * blf + 6 * blf + 2 * (blf + df + bld));
}

TEST(Accounting, RidgeOfAnA6000) {
  const Hardware& a6000 = *find_hardware("a6000");
  double ridge = a6000.peaks[0].tera_flops / a6000.memory_tera_bytes;
  EXPECT_NEAR(ridge, 50.39, 0.005);
  // A square fp32 GEMM of size N moves 12 N^2 bytes for 2 N^3 FLOPs: N / 6 FLOPs per byte.
  auto intensity = [](int64_t n) {
    Sketch s;
    ops::matmul(s.b, "mk,kn->mn", s.input({n, n}), s.input({n, n}));
    NodeCost cost = cost_of(s.graph);
    return static_cast<double>(cost.work.flops) / static_cast<double>(cost.bytes());
  };
  EXPECT_DOUBLE_EQ(intensity(300), 50);
  EXPECT_LT(intensity(302), ridge);
  EXPECT_GE(intensity(303), ridge);
}

TEST(Accounting, ParametersOfGemma3At270M) {
  models::ModelConfig config;
  config.family = models::Family::kGemma3;
  config.vocabulary = 262'144;
  config.hidden = 640;
  config.layers = 18;
  config.heads = 4;
  config.kv_heads = 1;
  config.head_size = 256;
  config.feed_forward = 2048;
  EXPECT_EQ(config.parameters(), 268'098'176);
}

TEST(Accounting, ParametersOfThePresets) {
  EXPECT_EQ(models::preset("tiny").config.parameters(), 2'617'600);
  EXPECT_EQ(models::preset("small").config.parameters(), 31'977'984);
  EXPECT_EQ(models::preset("medium").config.parameters(), 189'793'280);
  EXPECT_EQ(models::preset("large").config.parameters(), 1'008'748'544);
}

// GPT-2 124M, sequence 1024, one head axis per block, without biases: nanoGPT's sizing notebook.
class Gpt2 : public ::testing::Test {
 protected:
  static constexpr int64_t kT = 1024, kD = 768, kH = 12, kE = 64, kLayers = 12, kV = 50257;

  // FLOPs of the GEMMs of one block, by part.
  struct Block {
    int64_t qkv, scores, reduce, projection, mlp;
    int64_t sum() const { return qkv + scores + reduce + projection + mlp; }
  };

  Block block(Sketch& s, int64_t layer, ValueId x) {
    int64_t before = cost_of(s.graph).work.flops;
    auto since = [&] {
      int64_t now = cost_of(s.graph).work.flops, step = now - before;
      before = now;
      return step;
    };
    auto weight = [&](const char* part, Shape shape) {
      return s.b.parameter(fmt::format("{}.{}", layer, part), {DType::kF32, shape});
    };
    weight("norm_1", {kD});
    ValueId qkv = ops::matmul(s.b, "nd,fd->nf", x, weight("qkv", {3 * kD, kD}));
    Block flops{};
    flops.qkv = since();
    auto heads = [&](int64_t part) {
      return ops::reshape(s.b, ops::slice(s.b, qkv, 1, part * kD, (part + 1) * kD), {kT, kH, kE});
    };
    ValueId scores = ops::matmul(s.b, "the,she->hts", heads(0), heads(1));
    flops.scores = since();
    ValueId mixed = ops::matmul(s.b, "hts,she->the", scores, heads(2));
    flops.reduce = since();
    ValueId flat = ops::reshape(s.b, mixed, {kT, kD});
    ValueId projected = ops::matmul(s.b, "nd,fd->nf", flat, weight("projection", {kD, kD}));
    flops.projection = since();
    weight("norm_2", {kD});
    ValueId hidden = ops::matmul(s.b, "nd,fd->nf", projected, weight("up", {4 * kD, kD}));
    x_ = ops::matmul(s.b, "nd,fd->nf", hidden, weight("down", {kD, 4 * kD}));
    flops.mlp = since();
    return flops;
  }

  ValueId x_ = kNoValue;
};

int64_t stored_parameters(const Graph& graph) {
  int64_t sum = 0;
  for (const Value& value : graph.values)
    if (value.storage == Storage::kParameter) sum += value.type.shape.elements();
  return sum;
}

TEST_F(Gpt2, SizesOfTheNotebook) {
  Sketch s;
  ValueId table = s.b.parameter("table", {DType::kF32, {kV, kD}});
  s.b.parameter("positions", {DType::kF32, {kT, kD}});
  s.b.parameter("norm", {DType::kF32, {kD}});
  x_ = s.input({kT, kD});
  for (int64_t layer = 0; layer < kLayers; ++layer) {
    Block flops = block(s, layer, x_);
    EXPECT_EQ(flops.qkv, 3'623'878'656);
    EXPECT_EQ(flops.scores, 1'610'612'736);
    EXPECT_EQ(flops.reduce, 1'610'612'736);
    EXPECT_EQ(flops.projection, 1'207'959'552);
    EXPECT_EQ(flops.mlp, 9'663'676'416);
    EXPECT_EQ(flops.sum(), 17'716'740'096);
  }
  ops::matmul(s.b, "nd,vd->nv", x_, table);
  ModelTotals totals = model_totals(s.graph);
  EXPECT_EQ(totals.forward.flops, 291'648'307'200);
  EXPECT_EQ(stored_parameters(s.graph), 124'337'664);
  // In the backward pass, a GEMM costs two of its size.
  int64_t backward = 0;
  for (const OriginRecord& record : s.graph.origins) backward += record.work.backward.flops;
  EXPECT_EQ(backward, 2 * 291'648'307'200);

  // PaLM's estimate (arXiv:2204.02311, appendix B): 6 N + 12 L H Q T FLOPs per token.
  const int64_t parameters = stored_parameters(s.graph) - kT * kD;
  EXPECT_EQ(parameters, 123'551'232);
  EXPECT_EQ((6 * parameters + 12 * kLayers * kH * kE * kT) * kT, 875'062'886'400);
}

// A lecture on resource accounting (CS336).
TEST(Accounting, SeventyBillionParameters) {
  const Hardware& h100 = *find_hardware("h100");
  double peak = 0;
  for (const PeakRate& rate : h100.peaks)
    if (rate.dtype == DType::kBF16) peak = rate.tera_flops * 1e12;
  EXPECT_EQ(peak, 989.5e12);
  EXPECT_EQ(std::round(training_days(6.0 * 70e9, 15e12, 1024, peak, 0.5)), 144);
  EXPECT_EQ(kFp32AdamW.total(), 16);
  EXPECT_EQ(largest_model(640'000'000'000, kFp32AdamW), 40'000'000'000);
}

TEST(Accounting, Mi210OfThePublishedCharts) {
  const Hardware& mi210 = *find_hardware("MI210");
  EXPECT_EQ(mi210.peaks[1].tera_flops, 181);
  EXPECT_EQ(mi210.memory_tera_bytes, 1.6);
}

}  // namespace
}  // namespace ridge::cost
