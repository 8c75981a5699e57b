// SPDX-License-Identifier: Apache-2.0
// Legal graphs drawn from a seed, with input values, for properties that hold for every graph.
// Functions are bounded, so that long chains stay in the range of bf16.
#pragma once

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "base/random.h"
#include "graph/builder.h"
#include "ops/build.h"
#include "ops/case_data.h"
#include "ops/reference_run.h"
#include "ops/registry.h"

namespace ridge {

struct RandomGraphOptions {
  int nodes = 12;
  bool views = true;       // slice, transpose, reshape, broadcast
  bool primitives = true;  // GEMMs, sums, softmax, concat
  bool bf16 = false;       // some bf16 operands, and casts inside the graph
  bool updates = false;    // states that are added to in place
  bool scopes = false;
};

class RandomGraph {
 public:
  RandomGraph(uint32_t seed, const RandomGraphOptions& options)
      : options_(options), random_(seed), builder_(graph_, ops::table()) {
    int operands = 2 + pick(3);
    for (int i = 0; i < operands; ++i) add_operand();
    for (int i = 0; i < options.nodes; ++i) grow();
    choose_outputs();
  }

  Graph graph() const { return graph_; }
  const ops::NamedTensors& named() const { return named_; }

 private:
  int pick(size_t bound) { return static_cast<int>(random_.below(static_cast<uint32_t>(bound))); }
  bool chance(int one_in) { return pick(static_cast<size_t>(one_in)) == 0; }
  const Shape& shape(ValueId value) const { return graph_.shape(value); }
  ValueId any() { return pool_[static_cast<size_t>(pick(pool_.size()))]; }
  // Prefers later values, so that graphs become long rather than wide.
  ValueId recent() {
    return chance(3) ? any()
                     : pool_[pool_.size() - 1 -
                             static_cast<size_t>(pick(std::min<size_t>(pool_.size(), 4)))];
  }

  void add_operand() {
    constexpr int64_t kExtents[] = {1, 2, 3, 4, 6, 7, 16, 33};
    std::vector<int64_t> dims;
    int rank = 1 + pick(3);
    for (int i = 0; i < rank; ++i) dims.push_back(kExtents[pick(std::size(kExtents))]);
    DType dtype = options_.bf16 && chance(3) ? DType::kBF16 : DType::kF32;
    std::string label = fmt::format("x{}", named_.size());
    Type type{dtype, Shape(dims)};
    named_[label] = ops::draw(type, {}, random_);
    pool_.push_back(chance(2) ? builder_.parameter(label, type) : builder_.input(label, type));
  }

  void keep(ValueId value) { pool_.push_back(value); }

  void grow() {
    if (options_.scopes && chance(3))
      scope_.emplace(builder_, fmt::format("layer.{}/part {}", pick(3), pick(2)));
    int kinds =
        2 + (options_.views ? 2 : 0) + (options_.primitives ? 2 : 0) + (options_.updates ? 1 : 0);
    int kind = pick(static_cast<size_t>(kinds));
    if (kind < 2) return add_pointwise();
    kind -= 2;
    if (options_.views && kind < 2) return add_view();
    if (options_.views) kind -= 2;
    if (options_.primitives && kind < 2) return add_primitive();
    add_update();
  }

  // Another value of the same type, through a broadcast or a cast if there is none; otherwise the
  // value itself.
  ValueId partner(ValueId x) {
    for (int tries = 0; tries < 8; ++tries) {
      ValueId y = any();
      if (shape(y).rank() != shape(x).rank()) continue;
      bool fits = true;
      for (int axis = 0; axis < shape(x).rank(); ++axis)
        fits =
            fits && (shape(y)[axis] == shape(x)[axis] || (shape(y)[axis] == 1 && options_.views));
      if (fits)
        return ops::cast(builder_, ops::broadcast(builder_, y, shape(x)), builder_.type(x).dtype);
    }
    return x;
  }

  void add_pointwise() {
    ValueId x = recent();
    switch (pick(9)) {
      case 0:
        return keep(ops::unary(builder_, "tanh", x));
      case 1:
        return keep(ops::unary(builder_, "sigmoid", x));
      case 2:
        return keep(ops::unary(builder_, "neg", x));
      case 3:
        return keep(ops::scale(builder_, x, 0.75));
      case 4:
        return keep(ops::unary(builder_, "gelu_tanh", x));
      case 5:
        return keep(ops::scale(builder_, ops::add(builder_, x, partner(x)), 0.5));
      case 6:
        return keep(ops::sub(builder_, x, partner(x)));
      case 7:
        return keep(ops::mul(builder_, ops::unary(builder_, "tanh", x), partner(x)));
      default:
        if (!options_.bf16) return keep(ops::add_scalar(builder_, x, -0.25));
        return keep(ops::cast(builder_, x,
                              builder_.type(x).dtype == DType::kF32 ? DType::kBF16 : DType::kF32));
    }
  }

  void add_view() {
    ValueId x = recent();
    const Shape from = shape(x);
    if (from.rank() == 0) return;
    int axis = pick(static_cast<size_t>(from.rank()));
    switch (pick(4)) {
      case 0: {
        int64_t begin = pick(static_cast<size_t>(from[axis]));
        int64_t end = begin + 1 + pick(static_cast<size_t>(from[axis] - begin));
        return keep(ops::slice(builder_, x, axis, begin, end));
      }
      case 1: {
        std::vector<int64_t> order;
        for (uint32_t each : random_.permutation(static_cast<uint32_t>(from.rank())))
          order.push_back(each);
        return keep(ops::transpose(builder_, x, order));
      }
      case 2:
        return keep(ops::reshape(builder_, x, reshaped(from)));
      default: {
        if (from[axis] != 1 || from.elements() > 500) return;
        return keep(ops::broadcast(builder_, x, from.with(axis, 2 + pick(4))));
      }
    }
  }

  // A shape with the same elements, with one axis split or two axes merged.
  Shape reshaped(const Shape& from) {
    std::vector<int64_t> dims = from.to_vector();
    size_t axis = static_cast<size_t>(pick(dims.size()));
    for (int64_t factor : {2, 3})
      if (dims[axis] % factor == 0 && dims.size() < 4) {
        dims[axis] /= factor;
        dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis) + pick(2), factor);
        return Shape(dims);
      }
    if (axis + 1 < dims.size()) {
      dims[axis] *= dims[axis + 1];
      dims.erase(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1);
    }
    return Shape(dims);
  }

  void add_primitive() {
    ValueId x = recent();
    int rank = shape(x).rank();
    if (rank == 0) return;
    int axis = pick(static_cast<size_t>(rank));
    switch (pick(4)) {
      case 0:
        return keep(builder_.call("softmax", {x}));
      case 1:
        return keep(ops::unary(builder_, "tanh", ops::reduce_sum(builder_, x, {axis})));
      case 2:
        return add_concat(x, axis);
      default:
        return add_product(x);
    }
  }

  void add_concat(ValueId x, int axis) {
    std::vector<ValueId> parts{x};
    for (int tries = 0; tries < 6 && parts.size() < 3; ++tries) {
      ValueId y = any();
      bool fits =
          builder_.type(y).dtype == builder_.type(x).dtype && shape(y).rank() == shape(x).rank();
      for (int i = 0; fits && i < shape(x).rank(); ++i)
        fits = i == axis || shape(y)[i] == shape(x)[i];
      if (fits) parts.push_back(y);
    }
    if (parts.size() > 1 && shape(x).elements() < 2000) keep(ops::concat(builder_, parts, axis));
  }

  void add_product(ValueId x) {
    if (shape(x).rank() != 2) return;
    for (int tries = 0; tries < 8; ++tries) {
      ValueId y = any();
      if (shape(y).rank() != 2 || builder_.type(y).dtype != builder_.type(x).dtype) continue;
      std::string einsum;
      if (shape(y)[1] == shape(x)[1])
        einsum = "nd,fd->nf";
      else if (shape(y)[0] == shape(x)[1])
        einsum = "nf,fd->nd";
      else if (shape(y)[0] == shape(x)[0])
        einsum = "nf,nd->fd";
      else
        continue;
      // Bounded again, because products of products would exceed the range.
      return keep(ops::unary(builder_, "tanh", ops::matmul(builder_, einsum, x, y)));
    }
  }

  void add_update() {
    ValueId x = recent();
    std::string label = fmt::format("total{}", named_.size());
    Type total{DType::kF32, shape(x)};
    named_[label] = ops::draw(total, {}, random_);
    keep(builder_.call("accumulate", {builder_.state(label, total), x}));
  }

  // Some values from the middle, and always the last.
  void choose_outputs() {
    for (ValueId value : pool_)
      if (graph_.value(value).producer != kNoNode && (value == pool_.back() || chance(5)))
        graph_.outputs.push_back(value);
    if (graph_.outputs.empty()) graph_.outputs.push_back(ops::unary(builder_, "neg", pool_.back()));
  }

  RandomGraphOptions options_;
  Random random_;
  Graph graph_;
  Builder builder_;
  std::optional<Builder::Scope> scope_;
  std::vector<ValueId> pool_;
  ops::NamedTensors named_;
};

}  // namespace ridge
