// SPDX-License-Identifier: Apache-2.0
// The few ops that a load graph may hold, forwards and backwards.
#include "runtime/load.h"

#include <algorithm>

#include "base/bf16.h"
#include "base/block_formats.h"
#include "base/error.h"

namespace ridge::runtime {
namespace {

bool joins_rows(const Node& node) {
  return node.op->name == "concat" && node.attrs.integer("axis") == 0;
}

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

std::vector<std::byte> stored_bytes(const LoadGraph& load, ValueId value, const ByteSource& source);

std::vector<std::byte> joined_bytes(const LoadGraph& load,
                                    const Node& concat,
                                    const ByteSource& source) {
  std::vector<std::byte> joined;
  for (ValueId part : concat.inputs) {
    std::vector<std::byte> rows = stored_bytes(load, part, source);
    joined.insert(joined.end(), rows.begin(), rows.end());
  }
  return joined;
}

std::vector<std::byte> stored_bytes(const LoadGraph& load,
                                    ValueId value,
                                    const ByteSource& source) {
  const Node* node = load.graph.producer(value);
  if (node == nullptr) {
    std::span<const std::byte> bytes = source(load.graph.value(value).name);
    return {bytes.begin(), bytes.end()};
  }
  if (joins_rows(*node)) return joined_bytes(load, *node, source);
  RIDGE_CHECK(node->op->name == "cast" && load.graph.type(value).dtype == DType::kF32,
              "a load graph with '{}'", node->op->name);
  std::vector<std::byte> from = stored_bytes(load, node->inputs[0], source);
  std::vector<float> floats(static_cast<size_t>(load.graph.shape(value).elements()));
  dequantize(load.graph.type(node->inputs[0]).dtype, from, floats);
  std::span<const std::byte> made = std::as_bytes(std::span<const float>(floats));
  return {made.begin(), made.end()};
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
    RIDGE_CHECK(static_cast<int64_t>(data.size()) == type.shape.elements(), "'{}' has {} elements",
                name, data.size());
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

void load_stored(const LoadGraph& load, const ByteSource& source, Store& store) {
  for (const auto& [name, value] : load.stored) {
    const Type& type = load.graph.type(value);
    if (load.graph.producer(value) == nullptr) {
      store.adopt(name, type, source(load.graph.value(value).name));
      continue;
    }
    std::vector<std::byte> bytes = stored_bytes(load, value, source);
    store.require(name, type);
    store.write(name, bytes.data(), static_cast<int64_t>(bytes.size()));
  }
}

void save_parameters(const LoadGraph& load, const Store& store, const TensorSink& sink) {
  for (const auto& [name, value] : load.stored) {
    // A parameter kept in two types is saved from its fp32 form.
    if (load.graph.type(value).dtype == DType::kF32)
      invert(load, value, store.read_floats(name), sink);
  }
}

}  // namespace ridge::runtime
