// SPDX-License-Identifier: Apache-2.0
// Random graphs of views, pointwise ops, products, sums, joins and updates in place, for properties
// of plans.
#pragma once

#include <fmt/format.h>

#include <random>
#include <vector>

#include "graph/builder.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::perf {

class RandomGraph {
 public:
  explicit RandomGraph(uint32_t seed) : random_(seed) {}

  // About `nodes` nodes; values are [rows, columns] with few different extents, so that ops find
  // partners.
  Graph make(int nodes) {
    Graph graph;
    Builder b(graph, ops::table());
    for (int i = 0; i < 4; ++i)
      values_.push_back(b.input(fmt::format("x{}", i), {DType::kF32, shape()}));
    values_.push_back(b.parameter("w", {DType::kF32, shape()}));
    for (int i = 0; i < nodes; ++i) add(b);
    // An update of something stored, which nothing reads.
    ValueId last = values_.back();
    b.call("accumulate", {b.state("s", b.type(last)), last});
    graph.outputs = {values_[values_.size() - 1], values_[values_.size() / 2]};
    values_.clear();
    return graph;
  }

 private:
  int64_t extent() { return std::vector<int64_t>{1, 4, 8, 24}[random_() % 4]; }
  Shape shape() { return {extent(), extent()}; }
  ValueId any() { return values_[random_() % values_.size()]; }
  ValueId like(Builder& b, const Shape& shape) {
    std::vector<ValueId> fitting;
    for (ValueId value : values_)
      if (b.shape(value) == shape) fitting.push_back(value);
    return fitting[random_() % fitting.size()];
  }

  void add(Builder& b) {
    ValueId x = any();
    Shape s = b.shape(x);
    switch (random_() % 8) {
      case 0:
        values_.push_back(ops::add(b, x, like(b, s)));
        break;
      case 1:
        values_.push_back(ops::unary(b, "silu", x));
        break;
      case 2:
        values_.push_back(ops::transpose(b, x, {1, 0}));
        break;
      case 3:
        values_.push_back(ops::reshape(b, x, {s[1], s[0]}));
        break;
      case 4:
        if (s[1] > 1) values_.push_back(ops::slice(b, x, 1, s[1] / 4, s[1] / 2 + 1));
        break;
      case 5: {
        int axis = static_cast<int>(random_() % 2);
        ValueId first = ops::unary(b, "tanh", x), second = ops::scale(b, like(b, s), 2);
        values_.push_back(ops::concat(b, {first, second}, axis));
        break;
      }
      case 6:
        values_.push_back(ops::matmul(b, "mk,nk->mn", x, like(b, s)));
        break;
      default:
        values_.push_back(b.call("softmax", {x}));
        break;
    }
  }

  std::mt19937 random_;
  std::vector<ValueId> values_;
};

}  // namespace ridge::perf
