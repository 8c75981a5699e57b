// SPDX-License-Identifier: Apache-2.0
// The time of a GEMM between samples: machines that follow the law, and one that deviates from it.
#include "cost/product_time.h"

#include <gtest/gtest.h>

#include <vector>

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
  const double read_ns = bandwidth.ns_beyond_caches(1 << 20, false),
               write_ns = bandwidth.ns_beyond_caches(1 << 20, true);
  EXPECT_NEAR(read_ns, 0.9, 1e-9);
  EXPECT_EQ(bandwidth.ns_beyond_caches(1 << 10, false), 0);
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

}  // namespace
}  // namespace ridge::cost
