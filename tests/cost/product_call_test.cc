// SPDX-License-Identifier: Apache-2.0
// The GEMM behind a matmul: extents, storage order and the distance between rows, for matrices
// whose layouts are given by their steps.
#include "cost/product_call.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "graph/builder.h"
#include "ops/registry.h"

namespace ridge::cost {
namespace {

constexpr int64_t kM = 96, kN = 48, kK = 24;

// The call of a matmul of operands of these shapes.
ProductCall call_of(const std::string& einsum,
                    const Shape& a,
                    const Shape& b,
                    DType dtype,
                    const std::vector<Strides>& steps) {
  Graph graph;
  Builder builder(graph, ops::table());
  const ValueId x = builder.input("a", {dtype, a}), y = builder.input("b", {dtype, b});
  builder.call("matmul", {x, y}, {{"einsum", einsum}});
  const CallTypes types(graph, graph.nodes.back());
  return product_call(types.call(), {0, steps[0]}, {0, steps[1]}, {0, steps[2]});
}

// A matrix stored by rows, or transposed, with this distance between them.
Strides stored(bool transposed, int64_t distance) {
  return transposed ? Strides{1, distance} : Strides{distance, 1};
}

bool collides(int64_t distance, int64_t element_bytes) {
  for (int64_t bytes = 2048; bytes <= int64_t{1} << 40; bytes *= 2)
    if (distance * element_bytes == bytes) return true;
  return false;
}

// For the transpose of C, the operands change places and each is read the other way.
TEST(ProductCall, NamesTheStorageOrderAndTheExtents) {
  for (int bits = 0; bits < 8; ++bits) {
    const bool a = (bits & 1) != 0, b = (bits & 2) != 0, c = (bits & 4) != 0;
    const ProductCall call = call_of("mk,kn->mn", {kM, kK}, {kK, kN}, DType::kF32,
                                     {stored(a, 100), stored(b, 100), stored(c, 100)});
    const bool first = c ? !b : a, second = c ? !a : b;
    EXPECT_EQ(call.form, first ? (second ? ProductForm::kTT : ProductForm::kTN)
                               : (second ? ProductForm::kNT : ProductForm::kNN))
        << bits;
    EXPECT_EQ(call.extents.m, c ? kN : kM) << bits;
    EXPECT_EQ(call.extents.n, c ? kM : kN) << bits;
    EXPECT_EQ(call.extents.k, kK) << bits;
    EXPECT_EQ(call.extents.batch, 1) << bits;
    EXPECT_FALSE(call.power_of_two_rows) << bits;
    EXPECT_FALSE(call.is_native) << bits;
  }
}

// A weight may be stored in another type than the activations, which are multiplied in theirs.
TEST(ProductCall, HasTheTypeOfTheActivations) {
  Graph graph;
  Builder builder(graph, ops::table());
  const ValueId x = builder.input("x", {DType::kF32, {kM, kK}}),
                w = builder.parameter("w", {DType::kBF16, {kN, kK}});
  builder.call("matmul", {x, w}, {{"einsum", std::string("mk,nk->mn")}});
  const CallTypes types(graph, graph.nodes.back());
  const ProductCall call = product_call(types.call(), {0, {kK, 1}}, {0, {kK, 1}}, {0, {kN, 1}});
  EXPECT_EQ(call.dtype, DType::kF32);
  EXPECT_EQ(call.form, ProductForm::kNT);
}

TEST(ProductCall, SeesRowsThatCollideInAnyOfTheMatrices) {
  for (const DType dtype : {DType::kF32, DType::kBF16}) {
    const int64_t bytes = dtype == DType::kF32 ? 4 : 2;
    for (int bits = 0; bits < 8; ++bits)
      for (const int64_t distance : {128, 256, 500, 511, 512, 513, 768, 1000, 1024, 4096, 4100})
        for (int matrix = 0; matrix < 3; ++matrix) {
          std::vector<Strides> steps;
          for (int i = 0; i < 3; ++i)
            steps.push_back(stored((bits >> i & 1) != 0, i == matrix ? distance : 100));
          const ProductCall call = call_of("mk,kn->mn", {kM, kK}, {kK, kN}, dtype, steps);
          EXPECT_EQ(call.dtype, dtype);
          EXPECT_EQ(call.power_of_two_rows, collides(distance, bytes))
              << name(dtype) << " matrix " << matrix << " distance " << distance;
        }
  }
}

// Letters that step evenly through both tensors are one axis; others are a batch.
TEST(ProductCall, JoinsLettersOrTakesThemAsABatch) {
  const Shape x{3, 4, kK}, w{kN, kK};
  ProductCall call =
      call_of("btk,nk->btn", x, w, DType::kF32, {{4 * kK, kK, 1}, {kK, 1}, {4 * kN, kN, 1}});
  EXPECT_EQ(call.form, ProductForm::kNT);
  EXPECT_EQ(call.extents.m, 12);
  EXPECT_EQ(call.extents.batch, 1);
  call = call_of("btk,nk->btn", x, w, DType::kF32, {{5 * kK, kK, 1}, {kK, 1}, {4 * kN, kN, 1}});
  EXPECT_EQ(call.extents.m, 4);
  EXPECT_EQ(call.extents.batch, 3);
  call = call_of("bmk,bkn->bmn", {7, kM, kK}, {7, kK, kN}, DType::kF32,
                 {{kM * kK, kK, 1}, {kK * kN, kN, 1}, {kM * kN, kN, 1}});
  EXPECT_EQ(call.form, ProductForm::kNN);
  EXPECT_EQ(call.extents.batch, 7);
  EXPECT_EQ(call.extents.m, kM);
  EXPECT_EQ(call.extents.flops(), 2.0 * 7 * kM * kN * kK);
}

}  // namespace
}  // namespace ridge::cost
