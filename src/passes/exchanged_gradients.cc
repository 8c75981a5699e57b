// SPDX-License-Identifier: Apache-2.0
// Sorts gradients by when they are ready and cuts the list where a bucket is full.
#include "passes/exchanged_gradients.h"

#include <algorithm>

#include "ops/pointwise.h"
#include "ops/registry.h"

namespace ridge::passes {
namespace {

// PyTorch's DistributedDataParallel has the same: large enough for the links' full rate, and small
// enough that the first exchange begins early.
constexpr int64_t kBucketBytes = int64_t{25} << 20;

}  // namespace

bool ExchangedGradients::is_widening_cast(const Node& node) const {
  return is_a(node, ops::pointwise_op(Pointwise::kCast)) &&
         graph_.type(node.outputs[0]).dtype == DType::kF32 &&
         graph_.type(node.inputs[0]).dtype != DType::kF32;
}

ValueId ExchangedGradients::exchanged(ValueId gradient) const {
  const Node* producer = graph_.producer(gradient);
  return producer != nullptr && is_widening_cast(*producer) ? producer->inputs[0] : gradient;
}

bool ExchangedGradients::is_done(ValueId value) const {
  const Node* producer = graph_.producer(value);
  return producer != nullptr && is_collective(*producer) &&
         producer->attrs.text("group") == kDataGroup;
}

NodeId ExchangedGradients::first_sum(ValueId value) const {
  NodeId first = std::numeric_limits<NodeId>::max();
  for (const NodeId user : users(value)) {
    const Node& node = graph_.node(user);
    if (is_a(node, ops::accumulate_op())) first = std::min(first, user);
    if (is_widening_cast(node)) first = std::min(first, first_sum(node.outputs[0]));
  }
  return first;
}

std::vector<Bucket> ExchangedGradients::buckets(std::span<const ValueId> gradients) const {
  std::vector<ValueId> order;
  for (const ValueId each : gradients) {
    const ValueId value = exchanged(each);
    if (!is_done(value) && std::count(order.begin(), order.end(), value) == 0)
      order.push_back(value);
  }
  std::stable_sort(order.begin(), order.end(), [&](ValueId a, ValueId b) {
    return graph_.value(a).producer < graph_.value(b).producer;
  });
  std::vector<Bucket> buckets;
  for (const ValueId value : order) {
    const NodeId made = graph_.value(value).producer;
    if (buckets.empty() || buckets.back().bytes >= kBucketBytes || buckets.back().summed < made)
      buckets.emplace_back();
    Bucket& bucket = buckets.back();
    bucket.ready = std::max(bucket.ready, made);
    bucket.summed = std::min(bucket.summed, first_sum(value));
    const Type& type = graph_.type(value);
    bucket.bytes += storage_bytes(type.dtype, type.shape.elements());
    bucket.values.push_back(value);
  }
  return buckets;
}

std::vector<ValueId> ExchangedGradients::losses() const {
  std::vector<ValueId> losses;
  for (const ValueId output : graph_.outputs) {
    const Node* producer = graph_.producer(output);
    if (producer != nullptr && producer->phase == Phase::kForward &&
        graph_.shape(output).rank() == 0 && !is_done(output))
      losses.push_back(output);
  }
  return losses;
}

std::vector<Origin> ExchangedGradients::origins(std::span<const ValueId> values) const {
  std::vector<Origin> from;
  for (const ValueId value : values) {
    // A view may have no origin: it is no work. The node whose result it shows has one.
    const Node* producer = graph_.producer(value);
    while (producer != nullptr && producer->op->kind == OpKind::kView && producer->from.empty())
      producer = graph_.producer(producer->inputs[0]);
    if (producer != nullptr) from = merge_origins(from, producer->from);
    for (const NodeId user : users(value))
      if (graph_.node(user).phase == Phase::kOptimizer)
        from = merge_origins(from, graph_.node(user).from);
  }
  return from;
}

bool ExchangedGradients::needs_copy(ValueId value) const {
  const Node* producer = graph_.producer(value);
  if (producer == nullptr) return false;
  if (producer->op->kind == OpKind::kView) return true;
  return std::any_of(users(value).begin(), users(value).end(), [&](NodeId user) {
    const Node& node = graph_.node(user);
    return node.phase != Phase::kOptimizer && !is_widening_cast(node);
  });
}

}  // namespace ridge::passes
