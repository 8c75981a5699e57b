// SPDX-License-Identifier: Apache-2.0
// The time model for sizes without a measured sample nearby, and the sum of nodes' times.
#include "cost/predict.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/null/null_backend.h"
#include "cost/hardware.h"
#include "cost/made_up_ceilings.h"
#include "cost/quantized_time.h"
#include "cost/row_time.h"
#include "graph/builder.h"
#include "ops/registry.h"
#include "plan/targets.h"

namespace ridge::cost {
namespace {

CostedGraph count_plan(const Graph& graph, const plan::Target& target) {
  return count(plan::plan(graph, target));
}

std::vector<NodePrediction> predict(const Graph& graph, const Ceilings& ceilings) {
  auto target = backends::null::make_null_target();
  return predict_nodes(count(plan::plan(graph, *target)), ceilings);
}

// The compute time of 512 tokens times a block-quantized weight.
double compute_ns(const std::string& activations, const Ceilings& ceilings) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {512, 1024}}),
          w = b.parameter("w", {DType::kQ4_0, {1024, 1024}});
  graph.outputs = b.call_all("quantized_matmul", {x, w}, {{"activations", activations}});
  return predict(graph, ceilings).back().compute_ns;
}

TEST(Predict, QuantizedWeightsTakeTheRateOfWhatActivationsAreRoundedTo) {
  Ceilings c = ceilings_of(*find_hardware("h100"));
  c.parallel_threshold_bytes = 0;
  double bf16 = c.peak_flops_per_ns(DType::kBF16), f32 = c.peak_flops_per_ns(DType::kF32);
  ASSERT_GT(bf16, f32);
  double exact = compute_ns("f32", c);
  EXPECT_NEAR(exact / compute_ns("bf16", c), bf16 / f32, 1e-9 * bf16 / f32);
  EXPECT_EQ(compute_ns("i16", c), exact);  // not measured, so the fp32 peak holds
  ProductRates blocks;
  blocks.dtype = DType::kI16;
  blocks.peak_flops_per_ns = 4 * f32;
  c.products.push_back(blocks);
  EXPECT_NEAR(exact / compute_ns("i16", c), 4, 1e-9);
}

// A machine on which arithmetic and memory take no time.
Ceilings immediate() {
  Ceilings c = made_up_ceilings({{1 << 20, 1e9, 1e9}}, 1e9);
  c.arithmetic_flops_per_ns = c.fused_flops_per_ns = c.transcendentals_per_ns = 1e9;
  return c;
}

// `count` kernels on vectors of `elements`, each on the result of the one before.
Graph chain(int count, int64_t elements) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {elements}});
  for (int i = 0; i < count; ++i) x = b.call(i % 2 == 0 ? "neg" : "silu", {x});
  graph.outputs = {x};
  return graph;
}

double chain_ns(int count, int64_t elements, const Ceilings& ceilings) {
  plan::PlainTarget target;
  return predict_run_ns(count_plan(chain(count, elements), target), ceilings);
}

// A step of tiny kernels takes the overhead of each and nothing else.
TEST(Predict, TinyKernelsTakeTheirOverhead) {
  Ceilings c = immediate();
  c.launch_ns = 700;
  EXPECT_NEAR(chain_ns(1, 1, c), 700, 0.01);
  EXPECT_NEAR(chain_ns(250, 1, c), 250 * 700, 0.1);
  c.launch_ns = 0;
  EXPECT_NEAR(chain_ns(250, 1, c), 0, 0.1);
  // Threads are gathered only for kernels above the threshold.
  c.launch_ns = 700;
  c.parallel_ns = 3000;
  c.parallel_threshold_bytes = 4096;
  EXPECT_NEAR(chain_ns(40, 8, c), 40 * 700, 0.1);
  EXPECT_NEAR(chain_ns(40, 8192, c), 40 * (700 + 3000), 0.1);
}

// A CPU's kernels split a GEMM by another measure than the bytes of its operands.
TEST(Predict, AKernelsOwnMeasureDecidesWhetherThreadsShareIt) {
  class SharingTarget final : public plan::PlainTarget {
   public:
    std::optional<int64_t> shared_bytes(const Graph&, const Node&) const override { return 5000; }
  };
  Ceilings c = immediate();
  c.machine.threads = 4;
  c.arithmetic_flops_per_ns = 1;
  auto neg_ns = [&](int64_t threshold) {
    c.parallel_threshold_bytes = threshold;
    return predict_run_ns(count_plan(chain(1, 1000), SharingTarget()), c);
  };
  EXPECT_NEAR(neg_ns(5000), 1000, 0.01);
  EXPECT_NEAR(neg_ns(5001), 4000, 0.01);
}

// 3 and 30 ns per element of a weight in the caches at 1 and 5 tokens, 4 and 40 from memory, and 11
// and 22 ns per column. Memory is as fast as any cache, so every weight counts as in memory.
Ceilings with_quantized_times() {
  Ceilings c = immediate();
  c.quantized_gemms = {{DType::kQ8_0, DType::kI16, 0, {{1, 3, 4, 11}, {5, 30, 40, 22}}},
                       {DType::kBF16, DType::kF32, 0, {{1, 1, 2, 0}}},
                       {DType::kF32, DType::kF32, 4, {{1, 5, 5, 0}}}};
  return c;
}

double quantized_ns(int64_t tokens, const std::vector<Type>& weights, const Ceilings& ceilings) {
  Graph graph;
  Builder b(graph, ops::table());
  std::vector<ValueId> inputs = {b.input("x", {DType::kF32, {tokens, 64}})};
  for (const Type& weight : weights)
    inputs.push_back(b.parameter("w" + std::to_string(inputs.size()), weight));
  graph.outputs = b.call_all("quantized_matmul", inputs, {{"activations", std::string("i16")}});
  plan::PlainTarget target;
  return predict_run_ns(count_plan(graph, target), ceilings);
}

TEST(Predict, LooksUpGemmsOfQuantizedWeightsByTheirTokens) {
  Ceilings c = with_quantized_times();
  const Type weight{DType::kQ8_0, {20, 64}};
  EXPECT_NEAR(quantized_ns(1, {weight}, c), 1280 * 4 + 64 * 11, 0.1);
  EXPECT_NEAR(quantized_ns(5, {weight}, c), 1280 * 40 + 64 * 22, 0.1);
  EXPECT_NEAR(quantized_ns(3, {weight}, c), 1280 * 22 + 64 * 16.5, 0.1);
  EXPECT_NEAR(quantized_ns(15, {weight}, c), 3 * (1280 * 40 + 64 * 22), 0.1);
  // Activations are rounded once for all weights of blocks; bf16 multiplies them as they are.
  EXPECT_NEAR(quantized_ns(1, {weight, weight}, c), 2 * 1280 * 4 + 64 * 11, 0.1);
  EXPECT_NEAR(quantized_ns(1, {weight, {DType::kBF16, {10, 64}}}, c), 1280 * 4 + 640 * 2 + 64 * 11,
              0.1);
  c.launch_ns = 1000;
  EXPECT_NEAR(quantized_ns(1, {weight}, c), 1000 + 1280 * 4 + 64 * 11, 0.1);
}

// Conversions add to a function on bf16, unless both were measured together.
TEST(Predict, AFunctionOnBf16TakesWhatWasMeasuredOfIt) {
  Ceilings c = immediate();
  c.widened_elements_per_ns = c.narrowed_elements_per_ns = 1;
  c.functions = {{"sqrt", 4}};
  auto sqrt_ns = [&](DType dtype) {
    Graph graph;
    Builder b(graph, ops::table());
    graph.outputs = {b.call("sqrt", {b.input("x", {dtype, {1000}})})};
    return predict(graph, c).back().ns;
  };
  EXPECT_NEAR(sqrt_ns(DType::kF32), 250, 0.1);
  EXPECT_NEAR(sqrt_ns(DType::kBF16), 2250, 0.1);
  c.functions.push_back({"sqrt bf16", 0.5});
  EXPECT_NEAR(sqrt_ns(DType::kBF16), 2000, 0.1);
  EXPECT_NEAR(sqrt_ns(DType::kF32), 250, 0.1);
}

// Rows that the threads cannot share evenly: one of them has 2 of 3.
TEST(Predict, UnevenRowsTakeTheTimeOfTheThreadWithMost) {
  Ceilings c = immediate();
  c.machine.threads = 2;
  c.parallel_threshold_bytes = 1;
  for (int64_t width : kRowWidths)
    c.functions.push_back({row_function("softmax", DType::kF32, width), 4});
  auto rows_ns = [&](int64_t rows) {
    Graph graph;
    Builder b(graph, ops::table());
    graph.outputs = {b.call("softmax", {b.input("x", {DType::kF32, {rows, 1000}})})};
    return predict(graph, c).back().ns;
  };
  EXPECT_NEAR(rows_ns(4), 1000, 0.1);
  EXPECT_NEAR(rows_ns(3), 750 * 4 / 3.0, 0.1);
  EXPECT_NEAR(rows_ns(1), 500, 0.1);
}

TEST(QuantizedGemm, TakesItsWeightsAndItsColumns) {
  const QuantizedTime time{1, 0.5, 0.75, 3};
  EXPECT_DOUBLE_EQ(quantized_gemm_ns(time, 0, 10, 20), 20 * (10 * 0.5 + 3));
  EXPECT_DOUBLE_EQ(quantized_gemm_ns(time, 0.5, 10, 20), 20 * (10 * 0.625 + 3));
  EXPECT_DOUBLE_EQ(quantized_gemm_ns({1, 0.75, 0.5, 0}, 1, 10, 20), 20 * 10 * 0.75);
  // Plain weights are read while others are multiplied.
  EXPECT_DOUBLE_EQ(quantized_gemm_ns(time, 0.5, 10, 20, true), 20 * (10 * 0.5 + 3));
  EXPECT_DOUBLE_EQ(quantized_gemm_ns(time, 1, 10, 20, true), 20 * (10 * 0.75 + 3));
}

// The weight, 1360 bytes, is read again in each step, after x and y. A machine whose caches hold
// 64 KiB at 4 times the rate of memory brings it in a quarter of the time.
TEST(Predict, QuantizedWeightsTakeLongerFromMemoryThanFromCaches) {
  Ceilings c = with_quantized_times();
  const Type weight{DType::kQ8_0, {20, 64}};
  c.bandwidth = {{64 << 10, 4e9, 4e9}, {1 << 20, 1e9, 1e9}};
  EXPECT_NEAR(quantized_ns(1, {weight}, c), 1280 * 3.25 + 64 * 11, 0.1);
  c.bandwidth = {{16, 4e9, 4e9}, {128, 1e9, 1e9}};
  EXPECT_NEAR(quantized_ns(1, {weight}, c), 1280 * 4 + 64 * 11, 0.1);
  // Memory that is slower than the GEMM was when it was measured: 1 us per byte of weight, x and y.
  c.bandwidth = {{1 << 20, 1e-3, 1e-3}};
  EXPECT_NEAR(quantized_ns(1, {weight}, c), (1360 + 256 + 80) * 1000.0 + 64 * 11, 1);
}

TEST(Predict, PlainWeightsOnTheGemvPathTakeTheTimesOfQuantizedOnes) {
  Ceilings c = with_quantized_times();
  c.quantized_gemms.push_back({DType::kBF16, DType::kBF16, 4, {{1, 7, 7, 0}}});
  c.products[0].peak_flops_per_ns = 1;
  auto matmul_ns = [&](int64_t tokens, const std::string& einsum, DType dtype = DType::kF32) {
    Graph graph;
    Builder b(graph, ops::table());
    graph.outputs = {
        b.call("matmul", {b.input("x", {dtype, {tokens, 64}}), b.parameter("w", {dtype, {64, 64}})},
               {{"einsum", einsum}})};
    plan::PlainTarget target;
    return predict_run_ns(count_plan(graph, target), c);
  };
  EXPECT_NEAR(matmul_ns(1, "nd,fd->nf"), 4096 * 5, 0.1);
  EXPECT_NEAR(matmul_ns(1, "nd,fd->nf", DType::kBF16), 4096 * 7, 0.1);
  EXPECT_NEAR(matmul_ns(8, "nd,fd->nf"), 8 * 2 * 4096, 0.1);  // the GEMM peak
  EXPECT_NEAR(matmul_ns(8, "nd,fd->nf", DType::kBF16), 8 * 2 * 4096, 0.1);
  EXPECT_NEAR(matmul_ns(1, "nf,fd->nd"), 2 * 4096, 0.1);
}

// The sampled GEMMs have weights of the activations' type. Others take the time of their FLOPs at
// the peak rate, and of the launch.
TEST(Predict, AQuantizedWeightWithoutAMeasureTakesThePeakRate) {
  Ceilings c = immediate();
  c.launch_ns = 1000;
  c.products[0].peak_flops_per_ns = 2;
  c.products[0].samples = {{{1, 3, 64, 64}, ProductForm::kNT, 1e7}};
  auto product_ns = [&](DType weight) {
    Graph graph;
    Builder b(graph, ops::table());
    graph.outputs = {b.call(
        "matmul", {b.input("x", {DType::kF32, {3, 64}}), b.parameter("w", {weight, {64, 64}})},
        {{"einsum", std::string("nd,fd->nf")}})};
    plan::PlainTarget target;
    return predict_run_ns(count_plan(graph, target), c);
  };
  EXPECT_NEAR(product_ns(DType::kF32), 1e7, 1);
  EXPECT_NEAR(product_ns(DType::kBF16), 1000 + 2 * 3 * 64 * 64 / 2.0, 0.1);
}

// A GPU unpacks the weight of a prompt's tokens, to memory at worst, and multiplies it in bf16.
TEST(Predict, FragmentTilesOfManyRowsTakeAProductInTheirActivationsTypeAndTheirUnpacking) {
  const Ceilings c = ceilings_of(*find_hardware("h100"));
  const auto ns = [&](DType weight, int64_t tokens) {
    Graph graph;
    Builder b(graph, ops::table());
    const ValueId x = b.input("x", {DType::kBF16, {tokens, 4096}}),
                  w = b.parameter("w", {weight, {4096, 4096}});
    graph.outputs = b.call_all("matmul", {x, w}, {{"einsum", "nd,fd->nf"}});
    return predict(graph, c).back().ns;
  };
  const double bytes = 4096 * 4096 * (4.5 / 8 + 2), unpacking = bytes / c.memory_bytes_per_ns();
  for (const int64_t tokens : {512, 4096}) {
    const double plain = ns(DType::kBF16, tokens), unpacked = ns(DType::kQ4_Kx8, tokens);
    EXPECT_NEAR(unpacked - plain, unpacking, 0.05 * unpacking) << tokens;
  }
  EXPECT_LT(ns(DType::kQ4_Kx8, 1), 0.7 * ns(DType::kBF16, 1));  // memory's, of fewer bytes
  // The warps that unpack a weight multiply it too, after four trips of 380 ns and one for each
  // doubling of the rows; more than 64 rows read everything again.
  const double of_row = 2.0 * 4096 * 4096 / (0.55 * c.peak_flops_per_ns(DType::kBF16)),
               in_out = 2.0 * 2 * 4096 / c.memory_bytes_per_ns(), trip = 380;
  const auto moved_ns = [&](int64_t tokens, int trips) {
    return ns(DType::kQ4_Kx8, tokens) - c.launch_ns - trips * trip;
  };
  const double few = moved_ns(1, 4), once = moved_ns(64, 10);
  EXPECT_NEAR(once - few, 63 * (of_row + in_out), 0.01 * once);
  EXPECT_NEAR(moved_ns(128, 11), 2 * (once + 64 * in_out), 0.01 * once);
}

// Four heads of size 8 see 10 keys each: 40 scores and 2 x 320 MACs of each of 3 tokens.
TEST(Predict, AttentionOfDecodedTokensTakesItsOwnRates) {
  Ceilings c = immediate();
  c.cache = {{"cached_attention", DType::kF32, 2, 0.1, 0}};
  auto attention_ns = [&](int64_t tokens) {
    Graph graph;
    Builder b(graph, ops::table());
    const Type cache{DType::kF32, {3, 10, 2, 8}}, ids{DType::kI32, {tokens}};
    graph.outputs = {b.call(
        "cached_attention",
        {b.input("q", {DType::kF32, {tokens, 4, 8}}), b.state("k", cache), b.state("v", cache),
         b.input("positions", ids), b.input("slots", ids), b.input("table", {DType::kI32, {3, 1}})},
        {{"scale", 1.0}, {"context", int64_t{10}}, {"fused", true}})};
    plan::PlainTarget target;
    return predict_run_ns(count_plan(graph, target), c);
  };
  EXPECT_NEAR(attention_ns(3), 3 * (2 * 640 / 2.0 + 40 / 0.1), 0.1);
  // From memory the op is slower: 1 byte per ns. It moves keys and values, 320 floats of a
  // sequence, q and o, 64 floats of a token, 2 indices per token and the table.
  c.cache[0].memory_bytes_per_ns = 1;
  EXPECT_NEAR(attention_ns(3), 3 * 4 * (320 + 64 + 2) + 3 * 4, 0.1);
  // The measure includes the threads' gathering.
  c.parallel_ns = 3000;
  c.parallel_threshold_bytes = 1;
  c.launch_ns = 100;
  EXPECT_NEAR(attention_ns(3), 100 + 3 * 4 * (320 + 64 + 2) + 3 * 4, 0.1);
  c.parallel_ns = c.launch_ns = 0;
  // More tokens than sequences are a prompt, which has no such rates.
  EXPECT_LT(attention_ns(6), 1);
}

// A kernel on less than the threshold runs on one thread: at one thread's share of the rates, and
// without opening a parallel region.
TEST(Predict, SmallKernelsRunOnOneThread) {
  Graph graph;
  Builder b(graph, ops::table());
  graph.outputs = {b.call("neg", {b.input("x", {DType::kF32, {256, 1024}})})};
  constexpr int64_t kBytes = 2 << 20;
  Ceilings c = made_up_ceilings({{int64_t{1} << 30, 25, 20}}, 100);
  c.machine.threads = 4;
  c.arithmetic_flops_per_ns = 2;
  c.fused_flops_per_ns = 4;
  c.launch_ns = 300;
  c.parallel_ns = 5000;
  const double read_ns = 1.0 / 25, write_ns = 2.0 / 20 - read_ns;  // a byte takes so long
  const double memory_ns = kBytes / 2 * (read_ns + write_ns);
  for (const int64_t threshold : {int64_t{0}, kBytes, kBytes + 1}) {
    c.parallel_threshold_bytes = threshold;
    const NodePrediction p = predict(graph, c).back();
    const double threads = threshold > kBytes ? 4 : 1;
    EXPECT_NEAR(p.memory_ns, threads * memory_ns, 1e-6 * memory_ns) << threshold;
    EXPECT_NEAR(p.compute_ns, threads * (256 << 10) / 2, 1) << threshold;
    EXPECT_EQ(p.overhead_ns, threshold == kBytes ? 5300 : 300) << threshold;
    EXPECT_NEAR(p.ns, std::max(p.memory_ns, p.compute_ns) + p.overhead_ns, 1) << threshold;
    EXPECT_DOUBLE_EQ(p.flops_per_byte, 1.0 / 8) << threshold;
  }
}

// Rows at a power-of-two distance are slower by the machine's factor; 384 floats are no such.
TEST(Predict, CollidingRowsAreSlow) {
  Ceilings c = made_up_ceilings({{int64_t{1} << 30, 25, 20}}, 100);
  auto product_ns = [&](int64_t extent) {
    Graph graph;
    Builder b(graph, ops::table());
    ValueId x = b.input("x", {DType::kF32, {extent, extent}});
    graph.outputs = {b.call("matmul", {x, x}, {{"einsum", std::string("mk,kn->mn")}})};
    return predict(graph, c).back().compute_ns;
  };
  for (const double slowdown : {1.0, 3.0}) {
    c.products[0].power_of_two_slowdown = slowdown;
    EXPECT_NEAR(product_ns(384), 2.0 * 384 * 384 * 384 / 100, 1e-3);
    EXPECT_NEAR(product_ns(1024), slowdown * 2.0 * 1024 * 1024 * 1024 / 100, 1e-3);
  }
}

// The GEMMs of flash attention, 4 E FLOPs a score forward and 10 E backward, and what else a score
// takes, at the rates of its type; a measured call replaces the overhead of launches.
TEST(Predict, AttentionTakesTheTimeOfItsScores) {
  constexpr int64_t kTokens = 64, kHeads = 3, kSize = 16;
  constexpr double kScores = kHeads * kTokens * kTokens;
  Ceilings c = made_up_ceilings({{int64_t{1} << 30, 1e6, 1e6}}, 100);
  c.launch_ns = 70;
  auto predicted = [&](DType dtype) {
    Graph graph;
    Builder b(graph, ops::table());
    ValueId x = b.input("x", {dtype, {kTokens, kHeads, kSize}});
    const Attrs attrs{{"sequence", kTokens}, {"causal", false}, {"scale", 0.25}};
    std::vector<ValueId> made = b.call_all("flash_attention", {x, x, x}, attrs);
    graph.outputs = b.call_all("flash_attention_backward", {x, x, x, x, made[0], made[1]}, attrs);
    return predict_nodes(count(plan::plan(graph, plan::PlainTarget())), c);
  };
  AttentionRates wide{DType::kF32, 20, 2, 10, 1}, narrow{DType::kBF16, 40, 4, 30, 3, 500, 900};
  c.attention = {wide, narrow};
  std::vector<NodePrediction> p = predicted(DType::kF32);
  EXPECT_NEAR(p[0].compute_ns, kScores * (4.0 * kSize / 20 + 1.0 / 2), 1);
  EXPECT_NEAR(p[1].compute_ns, kScores * (10.0 * kSize / 10 + 1.0), 1);
  // 64 tokens are nearly short ones: 97% of the way from 600 to 60.
  const double way = std::log(600.0 / kTokens) / std::log(10.0);
  c.attention[0].forward_short_slowdown = 1.5;
  c.attention[0].backward_short_slowdown = 2;
  const std::vector<NodePrediction> brief = predicted(DType::kF32);
  EXPECT_NEAR(brief[0].compute_ns / p[0].compute_ns, 1 + 0.5 * way, 1e-9);
  EXPECT_NEAR(brief[1].compute_ns / p[1].compute_ns, 1 + way, 1e-9);
  c.attention[0] = wide;
  EXPECT_EQ(p[0].overhead_ns, 70);
  p = predicted(DType::kBF16);
  EXPECT_NEAR(p[0].compute_ns, kScores * (4.0 * kSize / 40 + 1.0 / 4), 1);
  EXPECT_NEAR(p[1].compute_ns, kScores * (10.0 * kSize / 30 + 1.0 / 3), 1);
  EXPECT_EQ(p[0].overhead_ns, 500);
  EXPECT_EQ(p[1].overhead_ns, 900);
  EXPECT_NEAR(p[1].ns, p[1].compute_ns + 900, 1);
}

// Three launches with five dependent round trips each time.
class SlowStarts final : public plan::PlainTarget {
  int launches(const Graph&, const Node&) const override { return 3; }
  int rounds(const Graph&, const Node&) const override { return 5; }
};

TEST(Predict, OverheadIsThatOfLaunchesAndRounds) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {4, 6}});
  ValueId y = b.call("reshape", {b.call("neg", {x})}, {{"shape", std::vector<int64_t>{24}}});
  graph.outputs = {b.call("neg", {y})};
  const CostedGraph costed = count(plan::plan(graph, SlowStarts()));
  Ceilings c = made_up_ceilings({{int64_t{1} << 30, 25, 20}}, 100);
  c.launch_ns = 1000;
  c.round_ns = 10;
  const std::vector<NodePrediction> nodes = predict_nodes(costed, c);
  for (size_t i : {size_t{0}, size_t{2}}) {
    EXPECT_EQ(costed.costs[i].launches, 3);
    EXPECT_EQ(costed.costs[i].rounds, 5);
    EXPECT_EQ(nodes[i].overhead_ns, 3050);
    EXPECT_EQ(nodes[i].bound, Bound::kOverhead);
  }
  EXPECT_EQ(costed.costs[1].launches, 0);  // a view
  EXPECT_EQ(costed.costs[1].rounds, 0);
  EXPECT_EQ(nodes[1].ns, 0);
  EXPECT_EQ(nodes[1].bound, Bound::kNone);
  EXPECT_EQ(total(costed.costs).launches, 6);
  EXPECT_EQ(total(costed.costs).rounds, 10);
}

// A sampled GEMM whose weight comes from memory begins with three trips; one whose operands were
// just written does not.
TEST(Predict, AGemmOfAColdWeightBeginsWithTrips) {
  Ceilings c = made_up_ceilings({{int64_t{1} << 30, 25, 20}}, 100);
  c.products[0].samples = {{{1, 64, 64, 64}, ProductForm::kNN, 5000}};
  for (const bool is_stored : {true, false}) {
    Graph graph;
    Builder b(graph, ops::table());
    const Type type{DType::kF32, {64, 64}};
    const ValueId x = b.input("x", type),
                  weight = is_stored ? b.parameter("w", type) : b.call("neg", {b.call("neg", {x})});
    graph.outputs = {
        b.call("matmul", {b.call("neg", {x}), weight}, {{"einsum", std::string("mk,kn->mn")}})};
    plan::PlainTarget target;
    const CostedGraph costed = count_plan(std::move(graph), target);
    c.round_ns = 0;
    const double without_ns = predict_nodes(costed, c).back().ns;
    c.round_ns = 100;
    EXPECT_NEAR(predict_nodes(costed, c).back().ns - without_ns, is_stored ? 300 : 0, 1e-6);
  }
}

// GEMVs read their weight slower than a kernel that only reads does, and other products do not.
TEST(Predict, AProductOfFewRowsReadsItsWeightAtARateOfItsOwn) {
  Ceilings c = immediate();
  const auto memory_ns = [&](int64_t rows) {
    Graph graph;
    Builder b(graph, ops::table());
    const ValueId x = b.call("neg", {b.input("x", {DType::kF32, {rows, 64}})});
    graph.outputs = {b.call("matmul", {x, b.parameter("w", {DType::kF32, {1000, 64}})},
                            {{"einsum", std::string("nd,fd->nf")}})};
    plan::PlainTarget target;
    return predict_nodes(count_plan(std::move(graph), target), c).back().memory_ns;
  };
  const double one_ns = memory_ns(1), many_ns = memory_ns(65);
  c.products[0].row_bytes_per_ns = c.memory_reads_per_ns() / 2;
  EXPECT_NEAR(memory_ns(1) - one_ns, 64 * 1000 * 4 / c.memory_reads_per_ns(), 1e-3 * one_ns);
  EXPECT_EQ(memory_ns(65), many_ns);
}

// A graph that is replayed again and again idles between its replays, if it is more than a kernel.
TEST(Predict, RepeatedReplaysPauseBetweenThem) {
  const auto target = backends::null::make_null_target({.replays = true});
  Ceilings c = immediate();
  c.stream_launch_ns = 1e6;  // the host launches no kernel
  const auto repeated_ns = [&](int kernels) {
    const CostedGraph costed = count_plan(chain(kernels, 1), *target);
    EXPECT_TRUE(costed.replays);
    return predict_repeated_ns(costed, predict_nodes(costed, c), c);
  };
  c.launch_ns = 1000;
  EXPECT_NEAR(repeated_ns(1), 2500, 1);
  EXPECT_NEAR(repeated_ns(4), 2500 + 4000, 1);
  c.launch_ns = 7000;
  EXPECT_NEAR(repeated_ns(1), 7600, 1);
}

// Two pointwise kernels and a GEMM, one after the other.
TEST(Predict, OnAStreamAKernelBeginsOnceTheHostHasToldIt) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {512, 512}}), y = b.call("neg", {x}),
          product = b.call("matmul", {y, x}, {{"einsum", std::string("mk,kn->mn")}});
  graph.outputs = {b.call("neg", {product})};
  auto target = backends::null::make_null_target();
  ASSERT_FALSE(target->replays());
  CostedGraph costed = count(plan::plan(graph, *target));
  Ceilings c = ceilings_of(*find_hardware("h100"));
  std::vector<NodePrediction> nodes = predict_nodes(costed, c);
  auto run_ns = [&] { return predict_run_ns(costed, nodes, c); };
  c.stream_launch_ns = 0;
  EXPECT_NEAR(run_ns(), total_ns(nodes), 1e-6);
  c.stream_launch_ns = 1e9;  // far longer than any of the kernels
  for (ProductRates& rates : c.products) rates.stream_call_ns = 2e9;
  EXPECT_NEAR(run_ns(), 4e9 + nodes.back().ns, 1);
  EXPECT_NEAR(predict_repeated_ns(costed, nodes, c), 4e9, 1);  // The host is what is waited for.
  Ceilings fast = c;
  fast.stream_launch_ns = 0;
  for (ProductRates& rates : fast.products) rates.stream_call_ns = 0;
  EXPECT_NEAR(predict_repeated_ns(costed, nodes, fast), total_ns(nodes), 1e-6);
  costed.costs[1].launches = 3;  // copies of its operands are not GEMMs
  EXPECT_NEAR(run_ns(), 6e9 + nodes.back().ns, 1);
  c = at_launch_rate(c, 0.5);
  EXPECT_NEAR(run_ns(), 12e9 + nodes.back().ns, 1);
}

// The library launches one kernel for it, where others may be two.
TEST(Predict, OnAStreamAProductOfOneRowHasACallOfItsOwn) {
  const auto repeated_ns = [](int64_t rows, const Ceilings& c) {
    Graph graph;
    Builder b(graph, ops::table());
    ValueId x = b.input("x", {DType::kF32, {rows, 512}}),
            w = b.input("w", {DType::kF32, {512, 512}});
    graph.outputs = {b.call("matmul", {x, w}, {{"einsum", std::string("mk,kn->mn")}})};
    auto target = backends::null::make_null_target();
    const CostedGraph costed = count(plan::plan(graph, *target));
    return predict_repeated_ns(costed, predict_nodes(costed, c), c);
  };
  Ceilings c = ceilings_of(*find_hardware("h100"));
  c.stream_launch_ns = 1e9;
  for (ProductRates& rates : c.products) rates.stream_call_ns = 4e9;
  EXPECT_NEAR(repeated_ns(1, c), 4e9, 1);
  for (ProductRates& rates : c.products) rates.stream_row_call_ns = 3e9;
  EXPECT_NEAR(repeated_ns(1, c), 3e9, 1);
  EXPECT_NEAR(repeated_ns(2, c), 4e9, 1);
  EXPECT_NEAR(repeated_ns(1, at_launch_rate(c, 0.5)), 6e9, 1);
  EXPECT_NEAR(repeated_ns(1, with_enqueue_time(c, 2e9)), 2e9, 1);
}

// Two GEMMs that do not wait for each other, and a sum that waits for both.
TEST(Predict, SideBySideKernelsShareWhatEachLeavesOfTheDevice) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId x = b.input("x", {DType::kF32, {64, 64}});
  auto product = [&] { return b.call("matmul", {x, x}, {{"einsum", std::string("mk,kn->mn")}}); };
  ValueId first = product(), second = product();
  graph.outputs = {b.call("add", {first, second})};
  plan::GreedyTarget target(3);
  const CostedGraph costed = count(plan::plan(graph, target));
  Ceilings c = ceilings_of(*find_hardware("h100"));
  std::vector<NodePrediction> nodes(3);
  nodes[0].ns = 60, nodes[1].ns = 100, nodes[2].ns = 10;
  auto run_ns = [&](double part, double other_part) {
    nodes[0].limit_ns = part * nodes[0].ns, nodes[1].limit_ns = other_part * nodes[1].ns;
    return predict_run_ns(costed, nodes, c);
  };
  EXPECT_NEAR(run_ns(1, 1), 170, 1e-9);                  // each fills the device
  EXPECT_NEAR(run_ns(0, 0), 110, 1e-9);                  // neither needs any of it
  EXPECT_NEAR(run_ns(1. / 16, 1. / 16), 110, 1e-9);      // each needs half of it
  EXPECT_NEAR(run_ns(1, 1. / 16), 60 * 1.5 + 50, 1e-9);  // at 1.5 times the time while both run
}

TEST(Roof, IsTheLowestAboveTheWork) {
  Ceilings c;
  c.levels = {{"memory", int64_t{1} << 34, 25, 20, 0}};
  c.products.resize(1);
  c.products[0].peak_flops_per_ns = 100;
  c.fused_flops_per_ns = 30;
  const Work product{1000, 2000, 0}, pointwise{0, 2000, 0};
  auto expect_roof = [&](const Work& work, int64_t bytes, const char* name, double flops_per_ns) {
    const Roof found = roof(c, DType::kF32, work, bytes);
    EXPECT_EQ(found.name, name);
    EXPECT_DOUBLE_EQ(found.flops_per_ns, flops_per_ns);
  };
  expect_roof(product, 100, "f32 GEMM", 100);
  expect_roof(product, 1000, "memory", 40);  // 2 FLOPs per byte
  expect_roof(pointwise, 1000, "vector", 30);
  expect_roof(pointwise, 2000, "memory", 20);
  expect_roof(pointwise, 0, "vector", 30);
  c.fused_flops_per_ns = 0;  // unknown
  expect_roof(pointwise, 100, "f32 GEMM", 100);
}

}  // namespace
}  // namespace ridge::cost
