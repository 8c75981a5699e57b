// SPDX-License-Identifier: Apache-2.0
// Tests how the letters of an einsum become the axes of strided GEMMs.
#include "backends/product_plan.h"

#include <gtest/gtest.h>

#include <array>

namespace ridge::backends {
namespace {

// Grouped attention: two sequences of 8 queries and 16 keys, 2 key heads, 3 query heads per key
// head, 4 features. A token's heads are contiguous; scores are dense.
constexpr int64_t kQueries = 8, kKeys = 16, kGroups = 2, kHeads = 3, kFeatures = 4;

ProductPlan plan(const char* einsum, const Shape& a, const Shape& b, const Shape& out) {
  std::array inputs = {Type{DType::kF32, a}, Type{DType::kF32, b}};
  std::array outputs = {Type{DType::kF32, out}};
  Attrs attrs;
  attrs.set("einsum", einsum);
  Call call{inputs, outputs, attrs};
  return plan_product(call, dense_layouts(call));
}

TEST(ProductPlan, SumsAlongTheLongerOfTwoAxesThatDoNotJoin) {
  // dK of grouped heads: the query heads of a group lie inside a token, so queries and heads cannot
  // be merged into one axis. The GEMM sums over queries and loops over heads, not the other way
  // round.
  ProductPlan p =
      plan("bghqk,bqghf->bkgf", Shape({2, kGroups, kHeads, kQueries, kKeys}),
           Shape({2, kQueries, kGroups, kHeads, kFeatures}), Shape({2, kKeys, kGroups, kFeatures}));
  EXPECT_EQ(p.gemm.k, kQueries);
  EXPECT_EQ(p.loop, "h");
  EXPECT_EQ(p.gemm.m, kKeys);
  EXPECT_EQ(p.gemm.n, kFeatures);
}

TEST(ProductPlan, RowsAreTheLongerOfTwoAxesThatDoNotJoin) {
  // Scores of grouped heads: one row per query, a batch over the heads that repeats their keys.
  ProductPlan p =
      plan("bqghf,bkgf->bghqk", Shape({2, kQueries, kGroups, kHeads, kFeatures}),
           Shape({2, kKeys, kGroups, kFeatures}), Shape({2, kGroups, kHeads, kQueries, kKeys}));
  EXPECT_EQ(p.gemm.m, kQueries);
  EXPECT_EQ(p.gemm.batch, (std::vector<int64_t>{2, kGroups, kHeads}));
  EXPECT_EQ(p.gemm.b_batch.back(), 0);
  EXPECT_TRUE(p.loop.empty());
}

TEST(ProductPlan, AxesThatStepEvenlyAreOne) {
  // A projection of tokens: sequences and positions form the rows.
  ProductPlan p = plan("bsf,of->bso", Shape({2, kQueries, kFeatures}), Shape({5, kFeatures}),
                       Shape({2, kQueries, 5}));
  EXPECT_EQ(p.gemm.m, 2 * kQueries);
  EXPECT_TRUE(p.gemm.batch.empty());
}

TEST(ProductPlan, ALongerAxisThatLeavesAMatrixWithoutADenseAxisIsNotTaken) {
  // The inner axis of the sum is the only contiguous one of the first operand.
  ProductPlan p = plan("mxyk,nyxk->mn", Shape({3, 2, 16, 4}), Shape({3, 16, 2, 4}), Shape({3, 3}));
  EXPECT_EQ(p.gemm.a_k, 1);
  EXPECT_EQ(p.gemm.b_k, 1);
}

}  // namespace
}  // namespace ridge::backends
