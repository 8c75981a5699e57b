// SPDX-License-Identifier: Apache-2.0
// data_parallel: ranks train on different sequences, so each gradient is averaged over them before
// the update reads it, and so is the loss. Gradients are reduced in buckets, in the order in which
// the backward pass makes them and as soon as a bucket is full, so that the exchange of one bucket
// overlaps with the computation of the next. A gradient that a cast widens for the update is
// exchanged in its 16 bits.
#include <algorithm>

#include "graph/rewriter.h"
#include "ops/adamw.h"
#include "ops/registry.h"
#include "passes/exchanged_gradients.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

class GradientReducer {
 public:
  GradientReducer(const Graph& graph, const PassContext& context, int64_t ranks)
      : graph_(graph), context_(context), ranks_(ranks), exchanged_(graph) {
    std::vector<ValueId> gradients;
    for (const Node& node : graph.nodes) {
      if (!is_a(node, ops::adamw_op())) continue;
      const int parameter = ops::adamw_tensors(node.inputs.size(), node.attrs)[0].input;
      gradients.push_back(node.inputs[static_cast<size_t>(parameter) + 1]);
    }
    buckets_ = exchanged_.buckets(gradients);
    for (const ValueId each : exchanged_.losses()) add_loss(each);
  }

  Graph run() {
    size_t next = 0;
    const auto reduce_before = [&](Rewriter& rewriter, NodeId id) {
      while (next < buckets_.size() && buckets_[next].ready < id)
        reduce(rewriter, buckets_[next++]);
    };
    const auto visit = [&](Rewriter& rewriter, NodeId id) {
      reduce_before(rewriter, id);
      const Node& node = graph_.node(id);
      return exchanged_.is_widening_cast(node) && is_reduced(node.inputs[0]);
    };
    const auto end = static_cast<NodeId>(graph_.nodes.size());
    return Rewriter(graph_, context_.ops).run(visit, [&](Rewriter& rewriter) {
      reduce_before(rewriter, end);
    });
  }

 private:
  bool is_reduced(ValueId value) const {
    return std::any_of(buckets_.begin(), buckets_.end(), [&](const Bucket& each) {
      return std::count(each.values.begin(), each.values.end(), value) > 0;
    });
  }

  // It goes with the last gradients: a message of its own would take longer.
  void add_loss(ValueId loss) {
    if (buckets_.empty()) buckets_.emplace_back();
    buckets_.back().ready = std::max(buckets_.back().ready, graph_.value(loss).producer);
    buckets_.back().values.push_back(loss);
  }

  void reduce(Rewriter& rewriter, const Bucket& bucket) {
    Builder& b = rewriter.builder();
    {
      auto derive = b.derive(exchanged_.origins(bucket.values), "data_parallel", Phase::kBackward);
      std::vector<ValueId> inputs;
      for (const ValueId value : bucket.values) {
        const ValueId mapped = rewriter.map(value);
        inputs.push_back(exchanged_.needs_copy(value) ? b.call("copy", {mapped}) : mapped);
      }
      rewriter.replace_all(
          bucket.values, b.call_all("all_reduce", inputs,
                                    {{"group", kDataGroup}, {"ranks", ranks_}, {"average", true}}));
    }
    for (const ValueId value : bucket.values)
      for (const NodeId user : exchanged_.users(value))
        if (exchanged_.is_widening_cast(graph_.node(user)))
          rewriter.replace_all(graph_.node(user).outputs, rewriter.copy(graph_.node(user)));
  }

  const Graph& graph_;
  const PassContext& context_;
  int64_t ranks_;
  ExchangedGradients exchanged_;
  std::vector<Bucket> buckets_;
};

}  // namespace

Graph run_data_parallel(const Graph& graph, PassContext& context) {
  const int64_t ranks = context.number.value_or(1);
  return ranks == 1 ? graph : GradientReducer(graph, context, ranks).run();
}

}  // namespace ridge::passes
