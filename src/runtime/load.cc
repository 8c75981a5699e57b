// SPDX-License-Identifier: Apache-2.0
// The few ops that a load graph may hold, forwards and backwards.
#include "runtime/load.h"

#include <algorithm>

#include "base/bf16.h"
#include "base/error.h"

namespace ridge::runtime {
namespace {

bool joins_rows(const Node& node) { return node.op->name == "concat" && node.attrs.integer("axis") == 0; }

std::vector<float> evaluate(const LoadGraph& load, ValueId value, const TensorSource& source) {
  const Node* node = load.graph.producer(value);
  if (node == nullptr) return source(load.graph.value(value).name, load.graph.type(value));
  if (node->op->name == "cast") return evaluate(load, node->inputs[0], source);
  RIDGE_CHECK(joins_rows(*node), "a load graph with '{}'", node->op->name);
  std::vector<float> joined;
  joined.reserve(static_cast<size_t>(load.graph.shape(value).elements()));
  for (ValueId part : node->inputs) {
    std::vector<float> rows = evaluate(load, part, source);
    joined.insert(joined.end(), rows.begin(), rows.end());
  }
  return joined;
}

void invert(const LoadGraph& load, ValueId value, std::vector<float> data, const TensorSink& sink) {
  const Node* node = load.graph.producer(value);
  if (node == nullptr) {
    sink(load.graph.value(value).name, load.graph.type(value), std::move(data));
    return;
  }
  if (node->op->name == "cast") {
    invert(load, node->inputs[0], std::move(data), sink);
    return;
  }
  RIDGE_CHECK(joins_rows(*node), "a load graph with '{}'", node->op->name);
  auto at = data.begin();
  for (ValueId part : node->inputs) {
    auto end = at + load.graph.shape(part).elements();
    invert(load, part, std::vector<float>(at, end), sink);
    at = end;
  }
}

}  // namespace

void load_parameters(const LoadGraph& load, const TensorSource& source, Store& store) {
  for (const auto& [name, value] : load.stored) {
    const Type& type = load.graph.type(value);
    store.require(name, type);
    std::vector<float> data = evaluate(load, value, source);
    RIDGE_CHECK(static_cast<int64_t>(data.size()) == type.shape.elements(), "'{}' has {} elements", name, data.size());
    if (type.dtype == DType::kBF16) {
      std::vector<uint16_t> bits(data.size());
      std::transform(data.begin(), data.end(), bits.begin(), float_to_bf16);
      store.write(name, bits.data(), static_cast<int64_t>(bits.size() * 2));
    } else {
      RIDGE_CHECK(type.dtype == DType::kF32, "'{}' is stored as {}", name, type.str());
      store.write(name, data.data(), static_cast<int64_t>(data.size() * 4));
    }
  }
}

void save_parameters(const LoadGraph& load, const Store& store, const TensorSink& sink) {
  for (const auto& [name, value] : load.stored) {
    // A parameter kept in two types is saved from its fp32 form.
    if (load.graph.type(value).dtype == DType::kF32) invert(load, value, store.read_floats(name), sink);
  }
}

}  // namespace ridge::runtime
