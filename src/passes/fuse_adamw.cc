// SPDX-License-Identifier: Apache-2.0
// fuse_adamw: updates many tensors in one launch. Each launch is placed where its gradients are
// computed and its parameters are no longer read. The memory of the gradients is then free early,
// and a device that runs branches in parallel overlaps updates with the backward pass. Where the
// step casts a parameter to 16 bits, the update also writes that copy, which is stored for the next
// step; the copy of a frozen parameter is stored
// for all steps. A gradient that was cast up from 16 bits for the update is read in 16 bits.
#include <algorithm>
#include <map>

#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/adamw.h"
#include "ops/pointwise.h"
#include "ops/registry.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

// The greatest number of launches. Each launch costs a few microseconds of GPU time, and nothing
// overlaps with the last one.
constexpr int64_t kGroups = 12;
// The least number of elements per launch: a smaller update takes less time than its launch.
constexpr int64_t kFewElements = int64_t{1} << 20;

bool is_narrow(DType dtype) { return dtype == DType::kBF16 || dtype == DType::kF16; }

bool is_cast(const Node* node) { return is_a(node, ops::pointwise_op(Pointwise::kCast)); }

// The updates of one launch, which may run after node `ready`.
struct Group {
  NodeId ready = kNoNode;
  std::vector<NodeId> updates;  // in the schedule's order
};

class AdamwFuser {
 public:
  AdamwFuser(const Graph& graph, PassContext& context)
      : graph_(graph), context_(context), users_(graph.users()) {
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (is_a(node, ops::adamw_op())) updates_.push_back(static_cast<NodeId>(i));
      if (is_parameter_cast(node)) casts_[node.inputs[0]].push_back(static_cast<NodeId>(i));
    }
    form_groups();
  }

  Graph run() {
    if (updates_.size() < 2) return graph_;
    size_t next = 0;
    return Rewriter(graph_, context_.ops).run([&](Rewriter& rewriter, NodeId id) {
      while (next < groups_.size() && (groups_[next].ready < id || id == updates_.back()))
        fuse_each_setting(rewriter, groups_[next++].updates);
      const Node& node = graph_.node(id);
      if (is_parameter_cast(node) &&
          (graph_.value(node.inputs[0]).frozen || has_update(node.inputs[0]))) {
        rewriter.replace(node.outputs[0], copy_state(rewriter, node.inputs[0]));
        return true;
      }
      return is_a(node, ops::adamw_op());
    });
  }

 private:
  // Sorts the updates by when they are ready and cuts the list where a part holds its share of the
  // elements. Updates that are ready at the same node stay together.
  void form_groups() {
    std::vector<std::pair<NodeId, NodeId>> order;  // (ready, update)
    int64_t all = 0;
    for (NodeId id : updates_) {
      order.emplace_back(ready(id), id);
      all += graph_.shape(parameter_of(graph_.node(id))).elements();
    }
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    const int64_t share = std::max(all / kGroups, kFewElements);
    int64_t held = 0;
    for (const auto& [when, id] : order) {
      if (groups_.empty() || (held >= share && when != groups_.back().ready)) {
        groups_.emplace_back();
        held = 0;
      }
      groups_.back().ready = when;
      groups_.back().updates.push_back(id);
      held += graph_.shape(parameter_of(graph_.node(id))).elements();
    }
    for (Group& group : groups_) std::sort(group.updates.begin(), group.updates.end());
  }

  // The last node that makes an operand of the update or reads the parameter that it changes.
  NodeId ready(NodeId update) const {
    NodeId last = last_read(parameter_of(graph_.node(update)));
    for (ValueId input : graph_.node(update).inputs)
      last = std::max(last, graph_.value(input).producer);
    return last;
  }

  // The last read of a value. Reads of its views count, and so do reads of its 16-bit copy, which
  // the update overwrites too.
  NodeId last_read(ValueId value) const {
    NodeId last = kNoNode;
    for (NodeId user : users_[static_cast<size_t>(value)]) {
      const Node& node = graph_.node(user);
      if (is_a(node, ops::adamw_op())) continue;
      last = std::max(last, user);
      if (node.op->kind == OpKind::kView || is_parameter_cast(node))
        last = std::max(last, last_read(node.outputs[0]));
    }
    return last;
  }

  bool is_parameter_cast(const Node& node) const {
    if (!is_cast(&node) || !is_narrow(graph_.type(node.outputs[0]).dtype)) return false;
    const Value& from = graph_.value(node.inputs[0]);
    return from.storage == Storage::kParameter && from.producer == kNoNode;
  }

  bool has_update(ValueId parameter) const {
    for (NodeId id : updates_)
      if (parameter_of(graph_.node(id)) == parameter) return true;
    return false;
  }

  static ValueId parameter_of(const Node& adamw) {
    return adamw
        .inputs[static_cast<size_t>(ops::adamw_tensors(adamw.inputs.size(), adamw.attrs)[0].input)];
  }

  // The stored 16-bit copy, "<name>.bf16" or "<name>.f16", loaded from the parameter's file tensor.
  ValueId copy_state(Rewriter& rewriter, ValueId parameter) {
    const Value& value = graph_.value(parameter);
    // All casts of a step are to one type.
    const DType dtype = graph_.type(graph_.node(casts_.at(parameter)[0]).outputs[0]).dtype;
    std::string name = value.name + "." + std::string(ridge::name(dtype));
    if (!context_.load.stored.contains(name)) {
      Builder load(context_.load.graph, context_.ops);
      load.set_phase(Phase::kLoad);
      context_.load.stored[name] = load.call("cast", {context_.load.stored.at(value.name)},
                                             {{"dtype", std::string(ridge::name(dtype))}});
    }
    return rewriter.builder().parameter(name, {dtype, value.type.shape});
  }

  // The 16-bit gradient in front of a widening cast; the gradient itself where no cast widens it.
  ValueId narrow_gradient(Rewriter& rewriter, ValueId gradient) const {
    const Node* producer = graph_.producer(gradient);
    bool widened = is_cast(producer) && is_narrow(graph_.type(producer->inputs[0]).dtype);
    return rewriter.map(widened ? producer->inputs[0] : gradient);
  }

  // One launch for all updates with the same attributes: weight decay may differ.
  void fuse_each_setting(Rewriter& rewriter, std::vector<NodeId> updates) {
    while (!updates.empty()) {
      const Attrs& attrs = graph_.node(updates[0]).attrs;
      const auto others = std::stable_partition(updates.begin(), updates.end(), [&](NodeId id) {
        return graph_.node(id).attrs == attrs;
      });
      fuse(rewriter, {updates.begin(), others});
      updates.erase(updates.begin(), others);
    }
  }

  void fuse(Rewriter& rewriter, const std::vector<NodeId>& updates) {
    const Node& first = graph_.node(updates[0]);
    int head = ops::adamw_tensors(first.inputs.size(), first.attrs)[0].input;
    std::vector<ValueId> inputs =
        rewriter.map(std::span<const ValueId>(first.inputs).first(static_cast<size_t>(head)));
    std::vector<int64_t> copies;
    std::vector<Origin> from;
    for (NodeId id : updates) {
      const Node& node = graph_.node(id);
      RIDGE_CHECK(node.attrs == first.attrs, "updates with different settings");
      const ValueId* operands = &node.inputs[static_cast<size_t>(head)];
      inputs.push_back(rewriter.map(operands[0]));
      inputs.push_back(narrow_gradient(rewriter, operands[1]));
      inputs.push_back(rewriter.map(operands[2]));
      inputs.push_back(rewriter.map(operands[3]));
      bool copied = casts_.contains(operands[0]);
      copies.push_back(copied ? 1 : 0);
      if (copied) inputs.push_back(copy_state(rewriter, operands[0]));
      from = merge_origins(from, node.from);
      from = merge_origins(from, cast_origins(operands[0], operands[1]));
    }
    auto derive = rewriter.builder().derive(from, first.scope, first.phase);
    Attrs attrs = first.attrs;
    attrs.set("copies", copies);
    std::vector<ValueId> made = rewriter.builder().call_all("adamw_multi", inputs, attrs);
    size_t at = 0;
    for (size_t i = 0; i < updates.size(); ++i) {
      const Node& node = graph_.node(updates[i]);
      for (size_t k = 0; k < 3; ++k) rewriter.replace(node.outputs[k], made[at + k]);
      at += copies[i] != 0 ? 4 : 3;
    }
  }

  // The origins of the casts that the fused update replaces.
  std::vector<Origin> cast_origins(ValueId parameter, ValueId gradient) const {
    std::vector<Origin> from;
    auto found = casts_.find(parameter);
    if (found != casts_.end())
      for (NodeId id : found->second) from = merge_origins(from, graph_.node(id).from);
    const Node* producer = graph_.producer(gradient);
    if (is_cast(producer)) from = merge_origins(from, producer->from);
    return from;
  }

  const Graph& graph_;
  PassContext& context_;
  std::vector<std::vector<NodeId>> users_;
  std::vector<NodeId> updates_;
  std::vector<Group> groups_;                     // in the order in which they are ready
  std::map<ValueId, std::vector<NodeId>> casts_;  // per parameter
};

}  // namespace

Graph run_fuse_adamw(const Graph& graph, PassContext& context) {
  return AdamwFuser(graph, context).run();
}

}  // namespace ridge::passes
