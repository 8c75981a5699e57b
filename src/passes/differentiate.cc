// SPDX-License-Identifier: Apache-2.0
// Traverses the nodes backwards once. The gradients that several readers contribute to a value are
// summed when its producer is reached. Those that arrive through slices are joined by one concat
// instead of being padded with zeros.
#include "passes/differentiate.h"

#include <algorithm>
#include <memory>
#include <type_traits>

#include "base/error.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::passes {
namespace {

// The gradient of part of a value: elements begin..end of one axis, or, if axis < 0, the whole
// value.
struct Contribution {
  ValueId gradient = kNoValue;
  int axis = -1;
  int64_t begin = 0;
  int64_t end = 0;
  NodeId by = kNoNode;  // the forward node whose gradient it is
  bool same_part(const Contribution& other) const {
    return axis == other.axis && begin == other.begin && end == other.end;
  }
};

size_t index(ValueId value) { return static_cast<size_t>(value); }

// The gradient of a view of given gradients does work that has no origin, since the view has
// none: it gets one of its own, without model work.
void give_origin(Graph& graph, size_t first_node, const Node& forward) {
  std::vector<Origin> own;
  for (size_t i = first_node; i < graph.nodes.size(); ++i) {
    Node& made = graph.nodes[i];
    if (made.op->kind == OpKind::kView || !made.from.empty()) continue;
    if (own.empty()) {
      own = {{static_cast<int32_t>(graph.origins.size()), Phase::kBackward}};
      graph.origins.push_back({forward.op->name, forward.scope, forward.phase, {}});
    }
    made.from = own;
  }
}

// Groups of slices along one axis, in order and without overlap; most values have one.
std::vector<std::vector<Contribution>> without_overlap(std::vector<Contribution> slices) {
  std::stable_sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
    return std::pair(a.axis, a.begin) < std::pair(b.axis, b.begin);
  });
  std::vector<std::vector<Contribution>> groups;
  for (Contribution& slice : slices) {
    auto fits = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return group.back().axis == slice.axis && group.back().end <= slice.begin;
    });
    if (fits == groups.end())
      groups.push_back({std::move(slice)});
    else
      fits->push_back(std::move(slice));
  }
  return groups;
}

// The gradients that readers contribute to each value, and their sums.
class GradientSums {
 public:
  GradientSums(Graph& graph, Builder& builder)
      : graph_(graph), builder_(builder), contributions_(graph.values.size()) {}

  bool any(ValueId value) const { return !contributions_[index(value)].empty(); }

  void add(ValueId value, Contribution contribution) {
    contributions_[index(value)].push_back(contribution);
    ++count(holders_, contribution.gradient);
  }

  // Collapses the contributions to a value into one gradient of its type.
  ValueId total(ValueId value) {
    std::vector<Contribution> parts = contributions_[index(value)];
    const size_t first_node = graph_.nodes.size();
    const NodeId by = parts.front().by;
    auto derive = derive_from(parts);
    sum_equal_parts(parts);
    std::vector<Contribution> slices;
    ValueId whole = kNoValue;
    for (const Contribution& part : parts) {
      if (part.axis < 0)
        whole = part.gradient;
      else
        slices.push_back(part);
    }
    for (const std::vector<Contribution>& apart : without_overlap(std::move(slices))) {
      ValueId joined = join(value, apart);
      whole = whole == kNoValue ? joined : ops::add(builder_, whole, joined);
    }
    for (const Contribution& part : contributions_[index(value)]) --count(holders_, part.gradient);
    contributions_[index(value)].clear();
    if (by != kNoNode) give_origin(graph_, first_node, Node(graph_.node(by)));
    add(value, {.gradient = whole, .by = by});
    return whole;
  }

 private:
  static int64_t& count(std::vector<int64_t>& counts, ValueId value) {
    if (index(value) >= counts.size()) counts.resize(index(value) + 1, 0);
    return counts[index(value)];
  }

  // Counts the reads of nodes that were appended since the last call.
  void count_reads() {
    for (; counted_ < graph_.nodes.size(); ++counted_)
      for (ValueId input : graph_.nodes[counted_].inputs) ++count(reads_, input);
  }

  // Derives from the union of the origins of the nodes that made the gradients: a sum belongs to
  // all of them. Given gradients, and views of them, count for the nodes that passed them on.
  Builder::Derive derive_from(const std::vector<Contribution>& parts) {
    std::vector<Origin> from;
    std::string scope;
    for (const Contribution& part : parts) {
      const Node* producer = graph_.producer(part.gradient);
      while (producer != nullptr && producer->op->kind == OpKind::kView)
        producer = graph_.producer(producer->inputs[0]);
      const bool is_given = producer == nullptr;
      if (is_given && part.by != kNoNode) producer = &graph_.node(part.by);
      if (producer == nullptr) continue;
      std::vector<Origin> behind = producer->from;
      if (is_given)
        for (Origin& origin : behind) origin.phase = Phase::kBackward;
      from = merge_origins(from, behind);
      scope = producer->scope;
    }
    return builder_.derive(std::move(from), scope, Phase::kBackward);
  }

  void sum_equal_parts(std::vector<Contribution>& parts) {
    std::vector<Contribution> sums;
    for (const Contribution& part : parts) {
      auto same = std::find_if(sums.begin(), sums.end(),
                               [&](const Contribution& c) { return c.same_part(part); });
      if (same == sums.end())
        sums.push_back(part);
      else
        same->gradient = sum(same->gradient, part.gradient);
    }
    parts = std::move(sums);
  }

  // first + second. If a matmul or embedding_backward makes `second`, it accumulates onto `first`
  // in place.
  ValueId sum(ValueId first, ValueId second) {
    NodeId maker = graph_.value(second).producer;
    if (maker == kNoNode) return ops::add(builder_, first, second);
    Node& node = graph_.node(maker);
    bool accumulates = (is_a(node, ops::matmul_op()) || is_a(node, ops::embedding_backward_op())) &&
                       node.inputs.size() == 2;
    count_reads();
    if (!accumulates || graph_.type(first) != graph_.type(second) ||
        !may_be_overwritten(first, maker))
      return ops::add(builder_, first, second);
    node.inputs.push_back(first);
    ++count(reads_, first);
    return second;
  }

  // Whether only the current sum needs the bytes of a gradient: no node reads it and no other value
  // still waits for it.
  bool may_be_overwritten(ValueId gradient, NodeId by) {
    const Value& value = graph_.value(gradient);
    if (value.storage != Storage::kTemporary || value.producer >= by) return false;
    if (graph_.node(value.producer).op->kind == OpKind::kView) return false;
    return count(reads_, gradient) == 0 && count(holders_, gradient) <= 1;
  }

  // Concatenates slices of one axis in order, without overlap; what no slice covers is zero.
  ValueId join(ValueId value, const std::vector<Contribution>& slices) {
    const Type type = graph_.type(value);
    int axis = slices[0].axis;
    std::vector<ValueId> parts;
    int64_t at = 0;
    auto zeros_until = [&](int64_t end) {
      if (at == end) return;
      parts.push_back(builder_.call("fill", {},
                                    {{"shape", type.shape.with(axis, end - at).to_vector()},
                                     {"value", 0.0},
                                     {"dtype", std::string(name(type.dtype))}}));
      at = end;
    };
    for (const Contribution& slice : slices) {
      zeros_until(slice.begin);
      parts.push_back(slice.gradient);
      at = slice.end;
    }
    zeros_until(type.shape[axis]);
    return ops::concat(builder_, parts, axis);
  }

  Graph& graph_;
  Builder& builder_;
  std::vector<std::vector<Contribution>> contributions_;  // per forward value
  std::vector<int64_t> holders_;                          // per value: the contributions that it is
  std::vector<int64_t> reads_;  // per value: the operands of the first counted_ nodes that it is
  size_t counted_ = 0;
};

class Differentiator {
 public:
  Differentiator(Graph& graph, const OpTable& ops, std::span<const ValueId> requires_gradient)
      : graph_(graph),
        builder_(graph, ops),
        wanted_(requires_gradient),
        forward_nodes_(static_cast<NodeId>(graph.nodes.size())),
        sums_(graph, builder_) {
    mark_needed();
  }

  std::vector<ValueId> run(ValueId loss, const std::function<ValueId(Builder&)>& seed) {
    RIDGE_CHECK(graph_.shape(loss).elements() == 1, "the loss is {}", graph_.type(loss).str());
    const Node* last = graph_.producer(loss);
    RIDGE_CHECK(last != nullptr, "the loss has no producer");
    const std::string scope = last->scope;
    add(loss, {in_backward_of(origins_behind(loss), scope, [&] { return seed(builder_); })});
    return finish();
  }

  std::vector<ValueId> run(std::span<const ValueId> outputs,
                           std::span<const ValueId> output_gradients) {
    for (size_t i = 0; i < outputs.size(); ++i)
      add(outputs[i], {.gradient = output_gradients[i], .by = graph_.value(outputs[i]).producer});
    return finish();
  }

 private:
  std::vector<ValueId> finish() {
    for (NodeId id = forward_nodes_; id-- > 0;) visit(id);
    std::vector<ValueId> gradients;
    for (ValueId value : wanted_)
      gradients.push_back(sums_.any(value) ? sums_.total(value) : kNoValue);
    return gradients;
  }

  // Marks the values that depend on one that requires a gradient.
  void mark_needed() {
    needed_.assign(graph_.values.size(), false);
    for (ValueId value : wanted_) needed_[index(value)] = true;
    for (NodeId id = 0; id < forward_nodes_; ++id) {
      const Node& node = graph_.node(id);
      bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                             [&](ValueId v) { return needed_[index(v)]; });
      for (ValueId output : node.outputs)
        if (any) needed_[index(output)] = true;
    }
  }

  // The origins of the node that makes a value. A view does no work, so for a view they are those
  // of the node whose result it shows.
  std::vector<Origin> origins_behind(ValueId value) const {
    const Node* node = graph_.producer(value);
    while (node != nullptr && node->op->kind == OpKind::kView && node->from.empty())
      node = graph_.producer(node->inputs[0]);
    return node == nullptr ? std::vector<Origin>() : node->from;
  }

  // The origins of a node's gradient. A view has none, so its gradient gets those of its readers'
  // gradients.
  std::vector<Origin> origins_of(const Node& node,
                                 std::span<const ValueId> output_gradients) const {
    std::vector<Origin> from = node.from;
    for (size_t i = 0; node.from.empty() && i < output_gradients.size(); ++i)
      if (output_gradients[i] != kNoValue)
        from = merge_origins(from, origins_behind(output_gradients[i]));
    return from;
  }

  template <typename Make>
  std::invoke_result_t<Make> in_backward_of(std::vector<Origin> from,
                                            const std::string& scope,
                                            const Make& make) {
    for (Origin& origin : from) origin.phase = Phase::kBackward;
    auto derive = builder_.derive(std::move(from), scope, Phase::kBackward);
    return make();
  }

  void add(ValueId value, Contribution contribution) {
    if (contribution.gradient == kNoValue || !needed_[index(value)]) return;
    sums_.add(value, contribution);
  }

  void visit(NodeId id) {
    const Node node = graph_.node(id);  // a copy: appending nodes reallocates the list
    bool reached = std::any_of(node.outputs.begin(), node.outputs.end(),
                               [&](ValueId v) { return sums_.any(v); });
    bool is_needed = std::any_of(node.inputs.begin(), node.inputs.end(),
                                 [&](ValueId v) { return needed_[index(v)]; });
    if (!reached || !is_needed) return;
    std::vector<ValueId> output_gradients;
    for (ValueId output : node.outputs)
      output_gradients.push_back(sums_.any(output) ? sums_.total(output) : kNoValue);
    if (is_a(node, ops::slice_op())) {
      add(node.inputs[0], {output_gradients[0], static_cast<int>(node.attrs.integer("axis")),
                           node.attrs.integer("begin"), node.attrs.integer("end"), id});
      return;
    }
    RIDGE_CHECK(node.op->gradient != nullptr, "op '{}' has no gradient", node.op->name);
    auto needed = std::make_unique<bool[]>(node.inputs.size());
    for (size_t i = 0; i < node.inputs.size(); ++i) needed[i] = needed_[index(node.inputs[i])];
    if (is_a(node, ops::matmul_op()) && !(needed[0] && needed[1])) halve_backward_work(node);
    const size_t first = graph_.nodes.size();
    std::vector<ValueId> gradients =
        in_backward_of(origins_of(node, output_gradients), node.scope, [&] {
          return node.op->gradient(
              {builder_, node, output_gradients, {needed.get(), node.inputs.size()}});
        });
    give_origin(graph_, first, node);
    for (size_t i = 0; i < gradients.size(); ++i)
      add(node.inputs[i], {.gradient = gradients[i], .by = id});
  }

  // A product of which one operand has no gradient, such as a frozen weight, has one product in its
  // backward, not two.
  void halve_backward_work(const Node& product) {
    for (const Origin& origin : product.from) {
      OriginRecord& record = graph_.origins[static_cast<size_t>(origin.id)];
      if (record.op == ops::matmul_op().name)
        record.work.backward = products(record.work.forward.macs);
    }
  }

  Graph& graph_;
  Builder builder_;
  std::span<const ValueId> wanted_;
  NodeId forward_nodes_;
  std::vector<bool> needed_;
  GradientSums sums_;
};

}  // namespace

std::vector<ValueId> differentiate(Graph& graph,
                                   const OpTable& ops,
                                   ValueId loss,
                                   std::span<const ValueId> requires_gradient,
                                   double seed) {
  return differentiate(graph, ops, loss, requires_gradient, [&](Builder& b) {
    return b.call("fill", {},
                  {{"shape", b.shape(loss).to_vector()},
                   {"value", seed},
                   {"dtype", std::string(name(b.type(loss).dtype))}});
  });
}

std::vector<ValueId> differentiate(Graph& graph,
                                   const OpTable& ops,
                                   ValueId loss,
                                   std::span<const ValueId> requires_gradient,
                                   const std::function<ValueId(Builder&)>& seed) {
  return Differentiator(graph, ops, requires_gradient).run(loss, seed);
}

std::vector<ValueId> pull_back(Graph& graph,
                               const OpTable& ops,
                               std::span<const ValueId> outputs,
                               std::span<const ValueId> output_gradients,
                               std::span<const ValueId> requires_gradient) {
  return Differentiator(graph, ops, requires_gradient).run(outputs, output_gradients);
}

}  // namespace ridge::passes
