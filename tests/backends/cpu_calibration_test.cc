// SPDX-License-Identifier: Apache-2.0
// The CPU's calibration covers what its kernels and passes do. Nothing is timed: every probe gets
// the same made-up time.
#include "backends/cpu/calibration/calibration.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "backends/cpu/cpu_backend.h"
#include "backends/cpu/isa.h"
#include "backends/cpu/kernels/partition.h"
#include "base/random.h"
#include "base/repacked_tiles.h"
#include "cost/quantized_time.h"
#include "cost/row_time.h"
#include "graph/builder.h"
#include "ops/registry.h"

namespace ridge::backends::cpu {
namespace {

cost::Ceilings made_up(CalibrationScope scope = {}) {
  std::unique_ptr<Calibration> calibration = make_calibration(std::move(scope));
  for (Probe& probe : calibration->probes()) probe.samples_ns = {1e6};
  cost::Ceilings ceilings = calibration->ceilings();
  cost::validate(ceilings);
  return ceilings;
}

// Those of this machine, bound and filled once for all tests that only read them.
const cost::Ceilings& made_up_once() {
  static const cost::Ceilings ceilings = made_up();
  return ceilings;
}

// A machine that is stopped or busy gives any probe any time. The ceilings are then poor, but
// possible: nothing is refused that was measured.
TEST(CpuCalibration, HasPossibleCeilingsHoweverProbesAreDisturbed) {
  std::unique_ptr<Calibration> calibration = make_calibration();
  Random random(7);
  auto uniform = [&] { return static_cast<double>(random.below(1 << 20)) / (1 << 20); };
  for (int round = 0; round < 8; ++round) {
    for (Probe& probe : calibration->probes()) {
      probe.samples_ns.clear();
      // From 100 ns to 10 s, most of them near a millisecond.
      for (int i = 0; i < 5; ++i)
        probe.samples_ns.push_back(1e6 *
                                   std::pow(10, (uniform() < 0.5 ? 1 : 4) * (2 * uniform() - 1)));
    }
    const cost::Ceilings ceilings = calibration->ceilings();
    EXPECT_NO_THROW(cost::validate(ceilings)) << "round " << round;
  }
}

// Every probe takes the same time, so parts that are measured one after the other give the record
// of the whole.
TEST(CpuCalibration, AddsInferenceToWhatTrainingMeasured) {
  const cost::Ceilings training = made_up({.has_inference = false});
  EXPECT_FALSE(training.has_inference);
  EXPECT_TRUE(training.quantized_gemms.empty());
  EXPECT_TRUE(training.cache.empty());
  EXPECT_FALSE(training.attention.empty());

  size_t rest = make_calibration({.known = training})->probes().size();
  EXPECT_LT(rest, make_calibration()->probes().size());
  EXPECT_EQ(cost::to_json(made_up({.known = training})), cost::to_json(made_up_once()));
}

void expect_rates(const cost::Ceilings& c, DType weight, DType activations, int64_t tokens) {
  const cost::QuantizedRates* rates = c.quantized_rates(weight, activations);
  ASSERT_NE(rates, nullptr) << name(weight) << " with " << name(activations);
  EXPECT_GT(cost::quantized_gemm_ns(cost::quantized_time(*rates, tokens), 1, 100, 100), 0);
}

TEST(CpuCalibration, HasTimesOfEveryTypeOfQuantizedWeight) {
  const cost::Ceilings& c = made_up_once();
  for (DType weight : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ4_0, DType::kQ4_1,
                       DType::kQ5_0, DType::kQ5_1, DType::kQ8_0, DType::kQ2_K, DType::kQ3_K,
                       DType::kQ4_K, DType::kQ5_K, DType::kQ6_K, DType::kQ4_G32, DType::kQ4_G128})
    for (int64_t tokens : {1, 4, 5, 32, 500}) {
      expect_rates(c, weight, DType::kF32, tokens);
      if (!is_block(weight)) continue;
      const DType rounded = rounded_activations(quantized_isa(), tokens, 16);
      expect_rates(c, weight, rounded, tokens);
      if (takes_repacked(quantized_isa()))
        expect_rates(c, repacked_dtype(weight, {1024, 1024}), rounded, tokens);
    }
  EXPECT_EQ(c.quantized_rates(DType::kF32, DType::kF32)->most_tokens, 4);
  expect_rates(c, DType::kBF16, DType::kBF16, 1);
  EXPECT_EQ(c.quantized_rates(DType::kBF16, DType::kBF16)->most_tokens, 4);
  EXPECT_EQ(c.quantized_rates(DType::kBF16, DType::kF32)->most_tokens, 0);
}

TEST(CpuCalibration, HasRatesOfKernelsOfRows) {
  const cost::Ceilings& c = made_up_once();
  for (const char* op : {"rms_norm", "softmax", "log_softmax", "reduce_sum"})
    for (DType dtype : {DType::kF32, DType::kBF16})
      EXPECT_TRUE(cost::row_ns_per_element(c, op, dtype, 1000)) << op << ' ' << name(dtype);
  for (const cost::AttentionRates& rates : c.attention) {
    EXPECT_GE(rates.forward_short_slowdown, 1);
    EXPECT_GE(rates.backward_short_slowdown, 1);
  }
  // Each sample from memory is next to one of the same product from the caches.
  for (const cost::ProductRates& rates : c.products)
    for (const cost::ProductSample& cold : rates.memory_samples)
      EXPECT_TRUE(std::any_of(
          rates.samples.begin(), rates.samples.end(), [&](const cost::ProductSample& hot) {
            return hot.form == cold.form && hot.extents.m == cold.extents.m &&
                   hot.extents.n == cold.extents.n && hot.extents.k == cold.extents.k;
          }));
}

// Multiplications alone are a ceiling of every type that GEMMs multiply, and each type of tiles
// has a rate of unpacking.
TEST(CpuCalibration, HasRatesOfMultiplyingAndUnpackingAlone) {
  const cost::Ceilings& c = made_up_once();
  if (c.machine.isa == "sse4.1") GTEST_SKIP() << "no AVX2";
  for (DType dtype : {DType::kF32, DType::kBF16, DType::kI16, DType::kI8}) {
    const cost::MultiplyRates* rates = c.multiply_rates(dtype);
    ASSERT_NE(rates, nullptr) << name(dtype);
    EXPECT_FALSE(rates->source.empty());
    // A million instructions (30,000 of tiles) of each thread in the made-up millisecond.
    const double instructions = rates->instruction.starts_with("tdp") ? 0.03 : 1;
    EXPECT_GE(rates->multiply_ops_per_ns, instructions * 16 * c.machine.threads);
    EXPECT_LE(rates->accumulate_ops_per_ns, rates->multiply_ops_per_ns);
  }
  for (const cost::ProductRates& product : c.products)
    if (const cost::MultiplyRates* rates = c.multiply_rates(product.dtype)) {
      EXPECT_EQ(product.theoretical_flops_per_ns, rates->theoretical_ops_per_ns)
          << name(product.dtype);
    }
  cost::Ceilings measured = c;
  measured.measured_at = "2026-11-24T00:00:00Z";
  EXPECT_EQ(measured.mfu_reference(DType::kI16).per_ns,
            c.multiply_rates(DType::kI16)->multiply_ops_per_ns);
  if (takes_repacked(quantized_isa())) {
    for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0, DType::kQ4_K,
                        DType::kQ6_K, DType::kQ4_G32, DType::kQ4_G128})
      EXPECT_GT(c.unpack_bytes_per_ns(repacked_dtype(dtype, {1024, 1024})), 0) << name(dtype);
  }
}

TEST(CpuCalibration, HasRatesOfAttentionToACache) {
  const cost::Ceilings& c = made_up_once();
  for (const char* op : {"cached_attention", "cached_scores", "cached_mask", "cached_mix"})
    for (DType dtype : {DType::kF32, DType::kBF16}) EXPECT_NE(c.cache_rates(op, dtype), nullptr);
  for (const char* op : {"cached_attention", "cached_scores", "cached_mix"})
    EXPECT_NE(c.cache_rates(op, DType::kI8), nullptr) << op;
}

// One thread multiplies a weight of 96 KiB with a few tokens, and all threads with more of them,
// or several such weights.
TEST(CpuKernels, StateTheBytesByWhichThreadsShareQuantizedWeights) {
  const std::unique_ptr<Backend> backend = make_cpu_backend({});
  auto shared_bytes = [&](int64_t tokens, int count) {
    Graph graph;
    Builder b(graph, ops::table());
    std::vector<ValueId> inputs = {b.input("x", {DType::kF32, {tokens, 256}})};
    for (int i = 0; i < count; ++i)
      inputs.push_back(b.parameter(std::to_string(i), {DType::kBF16, {192, 256}}));
    graph.outputs = b.call_all("quantized_matmul", inputs);
    return backend->shared_bytes(graph, graph.nodes[0]).value();
  };
  EXPECT_LT(shared_bytes(4, 1), kParallelBytes);
  EXPECT_GE(shared_bytes(5, 1), kParallelBytes);
  EXPECT_GE(shared_bytes(1, 2), kParallelBytes);
}

}  // namespace
}  // namespace ridge::backends::cpu
