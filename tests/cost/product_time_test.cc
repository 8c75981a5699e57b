// SPDX-License-Identifier: Apache-2.0
// The time of a GEMM between samples: machines that follow the law, and one that deviates from it.
#include "cost/product_time.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "cost/hardware.h"
#include "cost/predict.h"

namespace ridge::cost {
namespace {

// A machine on which each part of a GEMM takes its share of time.
double machine_ns(const ProductExtents& e) {
  const auto b = static_cast<double>(e.batch), m = static_cast<double>(e.m),
             n = static_cast<double>(e.n), k = static_cast<double>(e.k);
  return 700 + 0.02 * b * m * n * k + 0.3 * b * m * n + 0.5 * b * m * k + 0.1 * b * n * k;
}

ProductRates sampled(ProductForm form, double slowdown, int64_t batch = 1) {
  ProductRates rates;
  rates.peak_flops_per_ns = 50;
  for (const int64_t m : {1, 8, 64, 512})
    for (const int64_t n : {16, 128, 1024})
      for (const int64_t k : {16, 256, 1024}) {
        const ProductExtents extents{batch, m, n, k};
        rates.samples.push_back({extents, form, slowdown * machine_ns(extents)});
      }
  return rates;
}

TEST(ProductTime, FindsTheLawOfAMachineThatFollowsIt) {
  const ProductRates rates = sampled(ProductForm::kNT, 1);
  for (const ProductExtents& e : {ProductExtents{1, 3, 40, 50},
                                  {1, 100, 300, 700},
                                  {1, 2000, 2000, 2000},
                                  {1, 1, 1, 1},
                                  {1, 512, 128, 256}})
    EXPECT_NEAR(predict_product_ns(rates, ProductForm::kNT, e) / machine_ns(e), 1, 0.02)
        << e.m << ' ' << e.n << ' ' << e.k;
  const ProductRates batched = sampled(ProductForm::kNT, 1, 4);
  const ProductExtents other{9, 30, 50, 70};
  EXPECT_NEAR(predict_product_ns(batched, ProductForm::kNT, other) / machine_ns(other), 1, 0.02);
}

// Samples of another form, or of batches, tell only if there are none of the own kind.
TEST(ProductTime, EachFormHasItsLaw) {
  ProductRates rates = sampled(ProductForm::kNN, 1);
  for (const auto& other : {sampled(ProductForm::kNT, 3), sampled(ProductForm::kNN, 10, 4)})
    rates.samples.insert(rates.samples.end(), other.samples.begin(), other.samples.end());
  const ProductExtents one{1, 100, 300, 700}, batch{4, 100, 300, 700};
  EXPECT_NEAR(predict_product_ns(rates, ProductForm::kNN, one) / machine_ns(one), 1, 0.02);
  EXPECT_NEAR(predict_product_ns(rates, ProductForm::kNT, one) / machine_ns(one), 3, 0.06);
  EXPECT_NEAR(predict_product_ns(rates, ProductForm::kNN, batch) / machine_ns(batch), 10, 0.2);
  const ProductRates alone = sampled(ProductForm::kTT, 2);
  EXPECT_NEAR(predict_product_ns(alone, ProductForm::kNN, one) / machine_ns(one), 2, 0.04);
}

// A size at which the machine is slow is slow nearby too, and hardly elsewhere.
TEST(ProductTime, DeviationsCarryOverToSizesNearby) {
  ProductRates rates = sampled(ProductForm::kNN, 1);
  const ProductExtents slow{1, 64, 128, 256};
  for (ProductSample& sample : rates.samples)
    if (sample.extents.m == slow.m && sample.extents.n == slow.n && sample.extents.k == slow.k)
      sample.ns *= 2;
  auto share = [&](const ProductExtents& e) {
    return predict_product_ns(rates, ProductForm::kNN, e) / machine_ns(e);
  };
  EXPECT_NEAR(share(slow), 2, 0.1);
  EXPECT_GT(share({1, 70, 128, 256}), 1.7);
  EXPECT_LT(share({1, 512, 1024, 16}), 1.1);
}

// A machine whose GEMMs compute vectors of 16 columns, of which all samples have whole ones.
TEST(ProductTime, ColumnsCountInWholeVectors) {
  ProductRates rates = sampled(ProductForm::kNN, 1);
  auto ns = [&](int64_t columns) {
    return predict_product_ns(rates, ProductForm::kNN, {1, 100, columns, 700});
  };
  const double seventeen = ns(17);
  rates.vector_columns = 16;
  EXPECT_GT(ns(17), 1.3 * seventeen);
  EXPECT_NEAR(ns(17) / ns(32), 1, 0.02);
}

// Operands that come from memory take 30 ns longer than from the last cache. The machine reads them
// a third slower than its bandwidth tells, and does not overlap that.
TEST(ProductTime, FindsTheShareOfMemoryThatGemmsDoNotOverlap) {
  Ceilings c;
  c.bandwidth = {{1 << 10, 10, 10}, {1 << 20, 1, 1}};
  c.levels = {{"L1", 2 << 10, 10, 10, 0}, {"memory", 1 << 30, 1, 1, 0}};
  const Bandwidth bandwidth(c);
  const double read_ns = bandwidth.byte_time(1 << 20, false).beyond_caches_ns,
               write_ns = bandwidth.byte_time(1 << 20, true).beyond_caches_ns;
  EXPECT_NEAR(read_ns, 0.9, 1e-9);
  EXPECT_EQ(bandwidth.byte_time(1 << 10, false).beyond_caches_ns, 0);
  ProductRates rates;
  const ProductExtents e{1, 10, 20, 30};
  EXPECT_EQ(exposed_memory_share(rates, ProductForm::kNT, bandwidth), 0);
  const double beyond_ns = 4 * ((10 * 30 + 20 * 30) * read_ns + 10 * 20 * write_ns);
  rates.samples = {{e, ProductForm::kNT, 5000}, {e, ProductForm::kNN, 5000}};
  rates.memory_samples = {{e, ProductForm::kNT, 5000 + 4 * beyond_ns / 3},
                          {e, ProductForm::kNN, 4000}};
  EXPECT_NEAR(exposed_memory_share(rates, ProductForm::kNT, bandwidth), 4.0 / 3, 1e-9);
  EXPECT_EQ(exposed_memory_share(rates, ProductForm::kNN, bandwidth), 0);
}

TEST(ProductTime, WithoutSamplesThePeakHolds) {
  ProductRates rates;
  rates.peak_flops_per_ns = 50;
  EXPECT_DOUBLE_EQ(predict_product_ns(rates, ProductForm::kNN, {2, 10, 20, 30}),
                   2.0 * 2 * 10 * 20 * 30 / 50);
  EXPECT_EQ(predict_product_ns(rates, ProductForm::kNN, {1, 0, 20, 30}), 0);
}

double tera_flops(const Ceilings& c, DType dtype, int64_t n) {
  const ProductExtents e{1, n, n, n};
  const ProductTime time(c.product(dtype), ProductForm::kNN, false, c.machine.cores);
  return e.flops() / (time.ns(e) + c.launch_ns) / 1e3;
}

// 98 and 120 tiles of 256 x 128 on 108 multiprocessors: one wave, and two.
TEST(ProductTime, StepsWhereTilesNeedAnotherWave) {
  const Ceilings a100 = ceilings_of(*find_hardware("a100"));
  ASSERT_EQ(a100.machine.cores, 108);
  const double one = tera_flops(a100, DType::kBF16, 1792),
               two = tera_flops(a100, DType::kBF16, 1793);
  EXPECT_LT(two, 0.9 * one);
  EXPECT_NEAR(tera_flops(a100, DType::kBF16, 1791), one, 0.01 * one);
  EXPECT_LT(tera_flops(a100, DType::kBF16, 16384), 0.8 * 312);
}

// The rates of fp32 that a published course measured on an A100: 9.80 TFLOP/s, and 19.02.
TEST(ProductTime, RisesWithTheSizeOfAProduct) {
  const Ceilings a100 = ceilings_of(*find_hardware("a100"));
  EXPECT_NEAR(tera_flops(a100, DType::kF32, 1024), 9.80, 0.2 * 9.80);
  EXPECT_NEAR(tera_flops(a100, DType::kF32, 16384), 19.02, 0.2 * 19.02);
  EXPECT_LT(tera_flops(a100, DType::kF32, 256), 0.5 * tera_flops(a100, DType::kF32, 1024));
}

// Products in bf16 that others measured on an H100 (aiconfigurator, PyTorch's linear layers): each
// is within a fifth of what compute or memory and a launch take.
TEST(ProductTime, IsThatOfAnH100ByItsSheet) {
  const Ceilings h100 = ceilings_of(*find_hardware("h100"));
  struct Measured {
    int64_t m, n, k;
    double us;
  };
  for (const auto& [m, n, k, us] : {Measured{512, 10240, 12288, 168.17},
                                    {8192, 4096, 65536, 5130.28},
                                    {512, 1024, 65536, 88.77},
                                    {256, 16384, 8192, 99.77},
                                    {512, 4096, 8192, 42.44},
                                    {4096, 1536, 12288, 198.77},
                                    {4096, 512, 1024, 8.49},
                                    {1024, 1024, 6144, 23.14},
                                    {2048, 64, 2560, 6.43},
                                    {64, 65536, 64, 8.37}}) {
    const ProductTime time(h100.product(DType::kBF16), ProductForm::kNT, false, h100.machine.cores);
    const double bytes = 2 * static_cast<double>(m * k + n * k + m * n);
    const double ns = h100.launch_ns + std::max(time.ns({1, m, n, k}),
                                                bytes / h100.memory_bytes_per_ns());
    EXPECT_NEAR(ns / 1e3, us, 0.2 * us) << m << " x " << n << " x " << k;
  }
}

}  // namespace
}  // namespace ridge::cost
