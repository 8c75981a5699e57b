// SPDX-License-Identifier: Apache-2.0
// Layouts of views against brute force: a chain of views addresses the same elements as its
// references, and a view needs a copy only if no strides can express it.
#include <gtest/gtest.h>

#include <numeric>
#include <optional>

#include "base/error.h"
#include "base/random.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge {
namespace {

std::vector<double> addresses(const Shape& shape, const Layout& layout) {
  Strides dense = dense_strides(shape);
  std::vector<double> all;
  for (int64_t i = 0; i < shape.elements(); ++i) {
    int64_t at = layout.offset;
    for (int axis = 0; axis < shape.rank(); ++axis)
      at += i / dense[axis] % shape[axis] * layout.strides[axis];
    all.push_back(static_cast<double>(at));
  }
  return all;
}

// The layout with these addresses, if there is one.
std::optional<Layout> layout_of(const Shape& shape, const std::vector<double>& all) {
  Strides dense = dense_strides(shape);
  Layout layout{static_cast<int64_t>(all[0]), dense};
  for (int axis = 0; axis < shape.rank(); ++axis)
    layout.strides[axis] =
        shape[axis] == 1 ? 0 : static_cast<int64_t>(all[static_cast<size_t>(dense[axis])] - all[0]);
  if (addresses(shape, layout) != all) return std::nullopt;
  return layout;
}

// A random view of `x`.
ValueId random_view(Builder& b, ValueId x, Random& random) {
  const Shape shape = b.shape(x);
  int axis = static_cast<int>(random.below(static_cast<uint32_t>(shape.rank())));
  switch (random.below(5)) {
    case 0: {
      int64_t begin = random.below(static_cast<uint32_t>(shape[axis]));
      return ops::slice(b, x, axis, begin,
                        begin + 1 + random.below(static_cast<uint32_t>(shape[axis] - begin)));
    }
    case 1: {
      std::vector<int64_t> order;
      for (uint32_t each : random.permutation(static_cast<uint32_t>(shape.rank())))
        order.push_back(each);
      return ops::transpose(b, x, order);
    }
    case 2: {
      if (shape[axis] != 1 || shape.elements() > 200) return x;
      return ops::broadcast(b, x, shape.with(axis, 3));
    }
    default: {
      // A random factorization of the number of elements into extents.
      std::vector<int64_t> dims;
      for (int64_t left = shape.elements(); left > 1 && dims.size() < kMaxRank - 1;) {
        int64_t extent = 1 + random.below(static_cast<uint32_t>(left));
        while (left % extent != 0) --extent;
        dims.push_back(extent);
        left /= extent;
        if (dims.size() == kMaxRank - 1 && left > 1) dims.push_back(left);
      }
      if (dims.empty()) dims.push_back(1);
      return ops::reshape(b, x, Shape(dims));
    }
  }
}

TEST(Views, NameTheElementsThatTheirReferencesPick) {
  int expressible = 0, inexpressible = 0;
  for (uint32_t seed = 0; seed < 3000; ++seed) {
    Random random(seed);
    Graph graph;
    Builder b(graph, ops::table());
    constexpr int64_t kExtents[] = {1, 2, 3, 4, 6};
    std::vector<int64_t> dims;
    for (uint32_t i = 0; i <= random.below(4); ++i)
      dims.push_back(kExtents[random.below(std::size(kExtents))]);
    ValueId value = b.input("x", {DType::kF32, Shape(dims)});
    Layout layout{0, dense_strides(Shape(dims))};
    Tensor64 picked{graph.type(value),
                    std::vector<double>(static_cast<size_t>(Shape(dims).elements()))};
    std::iota(picked.data.begin(), picked.data.end(), 0.0);
    for (int step = 0; step < 6; ++step) {
      ValueId next = random_view(b, value, random);
      if (next == value) continue;
      const Node& node = graph.nodes.back();
      CallTypes types(graph, node);
      Tensor64 result{graph.type(next),
                      std::vector<double>(static_cast<size_t>(graph.shape(next).elements()))};
      const Tensor64* input = &picked;
      node.op->reference(types.call(), {&input, 1}, {&result, 1});
      std::optional<Layout> made = node.op->view(types.call(), layout);
      std::optional<Layout> want = layout_of(graph.shape(next), result.data);
      ASSERT_EQ(made.has_value(), want.has_value())
          << node.op->name << " of " << graph.type(value).str() << " strides "
          << layout.strides.str() << " to " << graph.type(next).str();
      ++(made ? expressible : inexpressible);
      if (!made) break;
      ASSERT_EQ(addresses(graph.shape(next), *made), result.data) << node.op->name;
      layout = *made;
      value = next;
      picked = std::move(result);
    }
  }
  EXPECT_GT(expressible, 5000);
  EXPECT_GT(inexpressible, 300);
}

TEST(Views, AreDenseWhereTheStridesSaySo) {
  EXPECT_TRUE(is_dense({2, 3}, {0, Strides{3, 1}}));
  EXPECT_TRUE(is_dense({2, 3}, {5, Strides{3, 1}}));
  EXPECT_TRUE(is_dense({1, 3}, {0, Strides{99, 1}}));  // one element never takes a step
  EXPECT_FALSE(is_dense({2, 3}, {0, Strides{4, 1}}));
  EXPECT_FALSE(is_dense({2, 3}, {0, Strides{1, 2}}));
  EXPECT_FALSE(is_dense({2, 3}, {0, Strides{0, 1}}));
  EXPECT_TRUE(is_dense({}, {0, {}}));
  for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{2, 0}, Shape{2, 0, 4}})
    EXPECT_TRUE(is_dense(shape, {0, dense_strides(shape)})) << shape.str();
}

TEST(Views, SlicesOfBlocksCutWholeOnes) {
  Graph graph;
  Builder b(graph, ops::table());
  ValueId w = b.parameter("w", {DType::kQ8_0, {4, 96}});
  EXPECT_EQ(b.shape(ops::slice(b, w, 1, 32, 96)), (Shape{4, 64}));
  EXPECT_EQ(b.shape(ops::slice(b, w, 0, 1, 3)), (Shape{2, 96}));
  EXPECT_THROW(ops::slice(b, w, 1, 16, 96), Error);
  EXPECT_THROW(ops::slice(b, w, 1, 32, 80), Error);
}

}  // namespace
}  // namespace ridge
