// SPDX-License-Identifier: Apache-2.0
// data_parallel: ranks train on different sequences, so each gradient is averaged over them before
// the update reads it, and so is the loss. Gradients are reduced in buckets, in the order in which
// the backward pass makes them and as soon as a bucket is full, so that the exchange of one bucket
// overlaps with the computation of the next. A gradient that a cast widens for the update is
// exchanged in its 16 bits.
#include <algorithm>

#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/adamw.h"
#include "ops/pointwise.h"
#include "ops/registry.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

// PyTorch's DistributedDataParallel has the same: large enough for the links' full rate, and small
// enough that the first exchange begins early.
constexpr int64_t kBucketBytes = int64_t{25} << 20;

constexpr const char* kGroup = "data";

struct Bucket {
  NodeId ready = kNoNode;  // the last node that makes one of its values
  int64_t bytes = 0;
  std::vector<ValueId> values;
};

class GradientReducer {
 public:
  GradientReducer(const Graph& graph, const PassContext& context, int64_t ranks)
      : graph_(graph), context_(context), ranks_(ranks), users_(graph.users()) {
    std::vector<ValueId> gradients;
    for (const Node& node : graph.nodes) {
      if (!is_a(node, ops::adamw_op())) continue;
      const int parameter = ops::adamw_tensors(node.inputs.size(), node.attrs)[0].input;
      gradients.push_back(exchanged(node.inputs[static_cast<size_t>(parameter) + 1]));
    }
    std::stable_sort(gradients.begin(), gradients.end(), [&](ValueId a, ValueId b) {
      return graph.value(a).producer < graph.value(b).producer;
    });
    for (const ValueId each : gradients) add(each);
    for (const ValueId each : graph.outputs) add_loss(each);
  }

  Graph run() {
    size_t next = 0;
    return Rewriter(graph_, context_.ops).run([&](Rewriter& rewriter, NodeId id) {
      while (next < buckets_.size() && buckets_[next].ready < id)
        reduce(rewriter, buckets_[next++]);
      return is_widening_cast(graph_.node(id)) && is_reduced(graph_.node(id).inputs[0]);
    });
  }

 private:
  bool is_widening_cast(const Node& node) const {
    return is_a(node, ops::pointwise_op(Pointwise::kCast)) &&
           graph_.type(node.outputs[0]).dtype == DType::kF32 &&
           graph_.type(node.inputs[0]).dtype != DType::kF32;
  }
  ValueId exchanged(ValueId gradient) const {
    const Node* producer = graph_.producer(gradient);
    return producer != nullptr && is_widening_cast(*producer) ? producer->inputs[0] : gradient;
  }
  bool is_reduced(ValueId value) const {
    for (const Bucket& each : buckets_)
      if (std::count(each.values.begin(), each.values.end(), value) > 0) return true;
    return false;
  }
  // Whether it was reduced by an earlier run of the pass, or is in a bucket already.
  bool is_done(ValueId value) const {
    const Node* producer = graph_.producer(value);
    return is_reduced(value) || (producer != nullptr && is_a(*producer, ops::all_reduce_op()));
  }

  void add(ValueId value) {
    if (is_done(value)) return;
    if (buckets_.empty() || buckets_.back().bytes >= kBucketBytes) buckets_.emplace_back();
    Bucket& bucket = buckets_.back();
    bucket.ready = std::max(bucket.ready, graph_.value(value).producer);
    const Type& type = graph_.type(value);
    bucket.bytes += storage_bytes(type.dtype, type.shape.elements());
    bucket.values.push_back(value);
  }

  // It goes with the last gradients: a message of its own would take longer.
  void add_loss(ValueId output) {
    const Node* producer = graph_.producer(output);
    if (producer == nullptr || producer->phase != Phase::kForward ||
        graph_.shape(output).rank() != 0 || is_done(output))
      return;
    if (buckets_.empty()) buckets_.emplace_back();
    buckets_.back().ready = std::max(buckets_.back().ready, graph_.value(output).producer);
    buckets_.back().values.push_back(output);
  }

  // The origins of the nodes that read the values, or of the one that makes the loss.
  std::vector<Origin> origins(const Bucket& bucket) const {
    std::vector<Origin> from;
    for (const ValueId value : bucket.values) {
      if (const Node* producer = graph_.producer(value)) from = merge_origins(from, producer->from);
      for (const NodeId user : users_[static_cast<size_t>(value)])
        if (graph_.node(user).phase == Phase::kOptimizer)
          from = merge_origins(from, graph_.node(user).from);
    }
    return from;
  }

  // Only the update may read the buffer that the exchange overwrites.
  bool needs_copy(ValueId value) const {
    const Node* producer = graph_.producer(value);
    if (producer == nullptr) return false;
    if (producer->op->kind == OpKind::kView) return true;
    return std::any_of(users_[static_cast<size_t>(value)].begin(),
                       users_[static_cast<size_t>(value)].end(), [&](NodeId user) {
                         const Node& node = graph_.node(user);
                         return node.phase != Phase::kOptimizer && !is_widening_cast(node);
                       });
  }

  void reduce(Rewriter& rewriter, const Bucket& bucket) {
    Builder& b = rewriter.builder();
    {
      auto derive = b.derive(origins(bucket), "data_parallel", Phase::kBackward);
      std::vector<ValueId> inputs;
      for (const ValueId value : bucket.values) {
        const ValueId mapped = rewriter.map(value);
        inputs.push_back(needs_copy(value) ? b.call("copy", {mapped}) : mapped);
      }
      rewriter.replace_all(bucket.values,
                           b.call_all("all_reduce", inputs,
                                      {{"group", kGroup}, {"ranks", ranks_}, {"average", true}}));
    }
    for (const ValueId value : bucket.values)
      for (const NodeId user : users_[static_cast<size_t>(value)])
        if (is_widening_cast(graph_.node(user)))
          rewriter.replace_all(graph_.node(user).outputs, rewriter.copy(graph_.node(user)));
  }

  const Graph& graph_;
  const PassContext& context_;
  int64_t ranks_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<Bucket> buckets_;
};

}  // namespace

Graph run_data_parallel(const Graph& graph, PassContext& context) {
  const int64_t ranks = context.number.value_or(1);
  return ranks == 1 ? graph : GradientReducer(graph, context, ranks).run();
}

}  // namespace ridge::passes
