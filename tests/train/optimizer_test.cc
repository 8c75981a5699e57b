// SPDX-License-Identifier: Apache-2.0
// The optimizer: its schedule against its definition, its update against a published run of AdamW
// and against double precision.
#include "train/optimizer.h"

#include <gtest/gtest.h>

#include <cmath>

#include "backends/graph_run.h"
#include "backends/npz_array.h"
#include "graph/load_graph.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "passes/differentiate.h"
#include "passes/passes.h"
#include "test_paths.h"
#include "train/small_run.h"

namespace ridge::train {
namespace {

OptimizerOptions schedule() {
  OptimizerOptions options;
  options.learning_rate = 1e-3;
  options.minimum_rate = 1e-4;
  options.warmup_steps = 10;
  options.decay_steps = 110;
  return options;
}

TEST(LearningRate, WarmsUpLinearly) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(), 1), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(), 5), 5e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(), 9), 9e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(), 10), 1e-3);
}

TEST(LearningRate, FallsAsACosineToItsMinimum) {
  EXPECT_DOUBLE_EQ(learning_rate(schedule(), 60), (1e-3 + 1e-4) / 2);
  EXPECT_NEAR(learning_rate(schedule(), 35), 1e-4 + 9e-4 * (1 + std::sqrt(0.5)) / 2, 1e-12);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(), 110), 1e-4);
  EXPECT_DOUBLE_EQ(learning_rate(schedule(), 10000), 1e-4);
  for (int64_t step = 11; step < 130; ++step)
    EXPECT_LE(learning_rate(schedule(), step), learning_rate(schedule(), step - 1)) << step;
}

TEST(LearningRate, IsConstantWithoutADecay) {
  OptimizerOptions options;
  options.learning_rate = 3e-4;
  for (int64_t step : {1, 2, 1000}) EXPECT_DOUBLE_EQ(learning_rate(options, step), 3e-4);
  options.warmup_steps = 4;
  EXPECT_DOUBLE_EQ(learning_rate(options, 1), 0.75e-4);
  EXPECT_DOUBLE_EQ(learning_rate(options, 1000), 3e-4);
}

// A linear layer 3 -> 2. Its loss is the sum of squared distances from a target.
Graph regression(const OptimizerOptions& options) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {1, 3}});
  ValueId w = b.parameter("w", {DType::kF32, {2, 3}});
  ValueId distance =
      ops::sub(b, ops::matmul(b, "nd,fd->nf", x, w), b.input("target", {DType::kF32, {1, 2}}));
  ValueId loss =
      ops::reshape(b, ops::reduce_sum(b, ops::unary(b, "square", distance), {0, 1}), Shape{});
  graph.outputs = {loss};
  std::vector<ValueId> wanted{w},
      gradients = passes::differentiate(graph, ops::table(), loss, wanted);
  append_adamw(b, options, wanted, gradients);
  return graph;
}

Graph lowered(const Graph& graph, backends::Backend& backend) {
  LoadGraph load;
  passes::PassContext context{ops::table(), backend, load};
  return passes::legalize_pass.run(graph, context);
}

Tensor64 f32(const Shape& shape, std::vector<double> data) {
  return {{DType::kF32, shape}, std::move(data)};
}

// 1000 steps of PyTorch's AdamW (tests/data/snapshots/README.md describes the recipe).
TEST(Adamw, MatchesThePublishedRun) {
  std::vector<float> want = read_npz_array(test_data("snapshots/test_adamw.npz"));
  OptimizerOptions options;
  options.learning_rate = 1e-3;
  options.weight_decay = 0.01;
  auto backend = cpu_backend(1);
  backends::GraphRun run(*backend, lowered(regression(options), *backend));
  Random random(42);
  auto draw = [&] { return static_cast<double>(random.uniform()); };
  std::vector<double> w(6);
  for (double& each : w) each = static_cast<float>((2 * draw() - 1) / std::sqrt(3.0));
  run.write("w", f32({2, 3}, w));
  run.write("learning_rate", f32({}, {options.learning_rate}));
  for (int step = 1; step <= 1000; ++step) {
    double x[3];
    for (double& each : x) each = draw();
    run.write("x", f32({1, 3}, {x[0], x[1], x[2]}));
    run.write("target", f32({1, 2}, {x[0] + x[1], -x[2]}));
    run.write("step", f32({}, {static_cast<double>(step)}));
    run.run();
  }
  std::vector<float> got = run.store().read_floats("w");
  for (size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5) << i;
}

// Two parameters with gradients far larger than the limit, over three steps, in double.
TEST(Adamw, ClipsByTheNormOfAllGradients) {
  OptimizerOptions options;
  options.clip_norm = 0.25;
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4}});
  std::vector<ValueId> wanted{b.parameter("a", {DType::kF32, {4}}),
                              b.parameter("c", {DType::kF32, {4}})};
  ValueId sum = ops::mul(b, x, ops::add(b, ops::unary(b, "square", wanted[0]), wanted[1]));
  ValueId loss = ops::reshape(b, ops::reduce_sum(b, sum, {0}), Shape{});
  graph.outputs = {loss};
  append_adamw(b, options, wanted, passes::differentiate(graph, ops::table(), loss, wanted));
  auto backend = cpu_backend(1);
  backends::GraphRun run(*backend, lowered(graph, *backend));
  ops::NamedTensors named;
  for (const char* name : {"a", "c", "x"}) named[name] = f32({4}, {0.5, -1.5, 2, 3});
  for (const char* name : {"a.adamw_m", "a.adamw_v", "c.adamw_m", "c.adamw_v"})
    named[name] = f32({4}, {0, 0, 0, 0});
  named["learning_rate"] = f32({}, {static_cast<float>(options.learning_rate)});
  named["step"] = f32({}, {0});
  run.write(named);
  std::vector<double> a{0.5, -1.5, 2, 3}, c = a, m(8, 0), v(8, 0);
  for (int step = 1; step <= 3; ++step) {
    run.write("step", f32({}, {static_cast<double>(step)}));
    run.run();
    std::vector<double> g;
    for (size_t i = 0; i < 4; ++i) g.push_back(2 * a[i] * named["x"].data[i]);
    for (size_t i = 0; i < 4; ++i) g.push_back(named["x"].data[i]);
    double norm = 0;
    for (double each : g) norm += each * each;
    double factor = std::min(1.0, options.clip_norm / (std::sqrt(norm) + 1e-6));
    EXPECT_LT(factor, 0.1);
    for (size_t i = 0; i < 8; ++i) {
      double& p = i < 4 ? a[i] : c[i - 4];
      m[i] = 0.9 * m[i] + 0.1 * factor * g[i];
      v[i] = 0.999 * v[i] + 0.001 * factor * factor * g[i] * g[i];
      double rate = options.learning_rate;
      p -= rate * options.weight_decay * p;
      p -= rate * (m[i] / (1 - std::pow(0.9, step))) /
           (std::sqrt(v[i] / (1 - std::pow(0.999, step))) + 1e-8);
    }
  }
  std::vector<float> got_a = run.store().read_floats("a"), got_c = run.store().read_floats("c");
  std::vector<float> got_m = run.store().read_floats("a.adamw_m");
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_NEAR(got_a[i], a[i], 1e-6);
    EXPECT_NEAR(got_c[i], c[i], 1e-6);
    EXPECT_NEAR(got_m[i], m[i], 1e-7);
  }
}

// A limit that is never reached changes only the last bits.
TEST(Adamw, AWideLimitClipsNothing) {
  StepOptions plain = small_step(kLearningByHeart), clipped = plain;
  clipped.optimizer.clip_norm = 1e6;
  for (const char* level : {"baseline", "compiled"})
    EXPECT_EQ(FixedRun(small_config(), plain, level, "").steps(5),
              FixedRun(small_config(), clipped, level, "").steps(5));
  clipped.optimizer.clip_norm = 1e-3;
  EXPECT_NE(FixedRun(small_config(), plain, "baseline", "").steps(5),
            FixedRun(small_config(), clipped, "baseline", "").steps(5));
}

TEST(Schedule, StaysThenFallsInALine) {
  OptimizerOptions options;
  options.learning_rate = 1;
  options.warmup_steps = 10;
  options.decay_begin = 90;
  options.decay_steps = 100;
  options.minimum_rate = 0.2;
  options.decay_shape = DecayShape::kLinear;
  for (const auto& [step, rate] :
       {std::pair{5, 0.5}, {10, 1.0}, {90, 1.0}, {95, 0.6}, {100, 0.2}, {500, 0.2}})
    EXPECT_NEAR(learning_rate(options, step), rate, 1e-12) << step;
  options.decay_begin = 0;  // at the end of the warm-up
  EXPECT_NEAR(learning_rate(options, 55), 0.6, 1e-12);
  options.decay_shape = DecayShape::kCosine;
  EXPECT_NEAR(learning_rate(options, 55), 0.6, 1e-12);
  EXPECT_NEAR(learning_rate(options, 25), 0.2 + 0.8 * 0.5 * (1 + std::cos(M_PI / 6)), 1e-12);
}

// With a rate that makes decay visible and gradients that do not matter next to it, only matrices
// shrink.
TEST(Adamw, DecayGroupsLeaveNormsAndEmbeddings) {
  StepOptions options = small_step(1e-6);
  options.optimizer.weight_decay = 1e5;  // a tenth in each step
  for (const char* level : {"baseline", "compiled"})
    for (const bool decays_all : {true, false}) {
      options.optimizer.decays_all = decays_all;
      FixedRun run(small_config(), options, level, "-tune_gemm");
      const Weights before = run.weights();
      run.steps(1);
      for (const auto& [name, values] : run.weights()) {
        const bool is_matrix = name.find("norm") == std::string::npos &&
                               name.find("embed_tokens") == std::string::npos;
        const double expected = decays_all || is_matrix ? 0.9 : 1;
        for (size_t i = 0; i < values.size(); ++i)
          ASSERT_NEAR(values[i], expected * before.at(name)[i], 3e-6) << name << " at " << level;
      }
    }
}

}  // namespace
}  // namespace ridge::train
