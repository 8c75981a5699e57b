// SPDX-License-Identifier: Apache-2.0
// zero: ranks that train on different sequences share out what data_parallel has on each of them
// (Rajbhandari et al. 2020, arXiv:1910.02054). Each rank stores a shard of each parameter in fp32,
// an equal part of its elements, with its moments, and updates it by its part of the averaged
// gradient. Whole parameters are gathered, in 16 bits where the step casts them, ahead of the layer
// that reads them. The number is the stage:
//   1  a step's gradients are summed whole; the update reads a part of their average
//   2  sums of gradients over micro-batches are shards too
//   3  frozen parameters are shards too, and the backward pass gathers parameters again, so that a
//      layer's are free after its forward pass
#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/adamw.h"
#include "ops/build.h"
#include "ops/pointwise.h"
#include "ops/registry.h"
#include "passes/exchanged_gradients.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

constexpr std::string_view kShard = ".shard";

std::string shard_name(std::string_view name) { return fmt::format("{}{}", name, kShard); }

// How tensors are cut: all elements in their order, with zeros behind them, in equal parts.
struct Cut {
  int64_t ranks = 1;

  Type part(const Type& whole) const {
    return {whole.dtype, Shape{ceil_div(whole.shape.elements(), ranks)}};
  }
  ValueId flat(Builder& b, ValueId whole) const {
    const Type type = b.type(whole);
    const int64_t elements = type.shape.elements(), zeros = round_up(elements, ranks) - elements;
    const ValueId flat = ops::reshape(b, whole, Shape{elements});
    if (zeros == 0) return flat;
    const Attrs attrs{{"shape", std::vector<int64_t>{zeros}},
                      {"value", 0.0},
                      {"dtype", std::string(name(type.dtype))}};
    return ops::concat(b, {flat, b.call("fill", {}, attrs)}, 0);
  }
  ValueId whole(Builder& b, ValueId flat, const Shape& shape) const {
    if (b.shape(flat).elements() != shape.elements())
      flat = ops::slice(b, flat, 0, 0, shape.elements());
    return ops::reshape(b, flat, shape);
  }
  Attrs attrs() const { return {{"group", kDataGroup}, {"ranks", ranks}}; }
  Attrs averaging() const {
    Attrs all = attrs();
    all.set("average", true);
    return all;
  }
};

ValueId parameter_of(const Node& adamw) {
  const int first = ops::adamw_tensors(adamw.inputs.size(), adamw.attrs)[0].input;
  return adamw.inputs[static_cast<size_t>(first)];
}

// Where whole parameters are read, and the nodes that gather them.
class Gatherer {
 public:
  Gatherer(const Graph& graph, PassContext& context, int64_t stage)
      : graph_(graph), context_(context), cut_{context.ranks}, frees_(stage == 3) {
    const std::vector<std::vector<NodeId>> users = graph.users();
    for (size_t i = 0; i < graph.values.size(); ++i)
      if (is_cut(graph.values[i])) add(static_cast<ValueId>(i), users[i]);
    for (size_t i = 0; i < graph.nodes.size(); ++i) add_reads(static_cast<NodeId>(i));
    // The section before has gathered them already.
    for (size_t i = sections_.size(); i-- > 1;)
      std::erase_if(sections_[i].parameters, [&](ValueId each) {
        const std::vector<ValueId>& before = sections_[i - 1].parameters;
        return std::count(before.begin(), before.end(), each) > 0;
      });
  }

  bool has(ValueId parameter) const { return cast_of_.contains(parameter); }
  // Whether the node only makes a parameter's 16 bits, which are gathered instead.
  bool is_replaced(const Node& node) const {
    return is_a(node, ops::pointwise_op(Pointwise::kCast)) && has(node.inputs[0]) &&
           cast_of_.at(node.inputs[0]) != nullptr;
  }

  void begin(Rewriter& rewriter) const {
    for (const auto& [parameter, cast] : cast_of_) {
      rewriter.drop(parameter);
      store_shard(graph_.value(parameter));
    }
  }
  // Each section's parameters are gathered when the section before it begins.
  void advance(Rewriter& rewriter, NodeId id) {
    while (next_ < sections_.size() && sections_[next_ == 0 ? 0 : next_ - 1].first <= id)
      gather(rewriter, sections_[next_++]);
  }
  ValueId shard(Rewriter& rewriter, ValueId parameter) const {
    Builder& b = rewriter.builder();
    const Value& value = graph_.value(parameter);
    const ValueId shard = b.parameter(shard_name(value.name), cut_.part(value.type));
    b.graph().values[static_cast<size_t>(shard)].frozen = value.frozen;
    return shard;
  }

 private:
  // The nodes of a layer in one direction, in which parameters are read.
  struct Section {
    bool is_forward = true;
    std::string scope;  // outermost
    NodeId first = kNoNode;
    std::vector<ValueId> parameters;
  };

  bool is_cut(const Value& value) const {
    return value.storage == Storage::kParameter && value.producer == kNoNode &&
           value.type.dtype == DType::kF32 && !value.name.ends_with(kShard) &&
           (frees_ || !value.frozen);
  }

  // Notes the cast by which all but the update read the parameter.
  void add(ValueId parameter, const std::vector<NodeId>& users) {
    const Node* cast = nullptr;
    bool is_narrow = true;
    for (const NodeId id : users) {
      const Node& user = graph_.node(id);
      if (is_a(user, ops::adamw_op())) continue;
      is_narrow = is_narrow && is_a(user, ops::pointwise_op(Pointwise::kCast)) &&
                  (cast == nullptr || user.attrs == cast->attrs);
      cast = &user;
    }
    cast_of_[parameter] = is_narrow ? cast : nullptr;
    if (!is_narrow || cast == nullptr) {
      reads_[parameter] = {parameter};
      return;
    }
    for (const NodeId id : users)
      if (!is_a(graph_.node(id), ops::adamw_op()))
        reads_[parameter].push_back(graph_.node(id).outputs[0]);
  }

  void add_reads(NodeId id) {
    const Node& node = graph_.node(id);
    if (is_a(node, ops::adamw_op())) return;
    for (const auto& [parameter, values] : reads_)
      if (std::any_of(values.begin(), values.end(), [&](ValueId value) {
            return std::count(node.inputs.begin(), node.inputs.end(), value) > 0;
          }))
        add_read(parameter, id);
  }

  void add_read(ValueId parameter, NodeId id) {
    const Node& node = graph_.node(id);
    const auto has = [&](const Section& each) {
      return std::count(each.parameters.begin(), each.parameters.end(), parameter) > 0;
    };
    if (!frees_ && std::any_of(sections_.begin(), sections_.end(), has)) return;
    const bool is_forward = node.phase == Phase::kForward;
    const std::string scope = node.scope.substr(0, node.scope.find('/'));
    // A layer that gives its parameters back gathers them for each micro-batch.
    const auto begin =
        frees_ && !sections_.empty() ? std::prev(sections_.end()) : sections_.begin();
    auto found = std::find_if(begin, sections_.end(), [&](const Section& each) {
      return each.is_forward == is_forward && each.scope == scope;
    });
    if (found == sections_.end())
      found = sections_.insert(found, Section{is_forward, scope, id, {}});
    if (!has(*found)) found->parameters.push_back(parameter);
  }

  void gather(Rewriter& rewriter, const Section& section) {
    if (section.parameters.empty()) return;
    Builder& b = rewriter.builder();
    std::vector<ValueId> parts;
    for (const ValueId parameter : section.parameters) parts.push_back(read(rewriter, parameter));
    const Phase phase = section.is_forward ? Phase::kForward : Phase::kBackward;
    const std::string scope = section.scope.empty() ? "zero" : section.scope + "/zero";
    auto derive = b.derive(graph_.node(section.first).from, scope, phase);
    const std::vector<ValueId> gathered = b.call_all("all_gather", parts, cut_.attrs());
    for (size_t i = 0; i < gathered.size(); ++i) {
      const ValueId parameter = section.parameters[i];
      const ValueId whole = cut_.whole(b, gathered[i], graph_.shape(parameter));
      for (const ValueId value : reads_.at(parameter)) rewriter.replace(value, whole);
    }
  }

  // The shard in the type in which the step reads the parameter.
  ValueId read(Rewriter& rewriter, ValueId parameter) {
    const ValueId own = shard(rewriter, parameter);
    const Node* cast = cast_of_.at(parameter);
    if (cast == nullptr) return own;
    const auto found = narrow_.find(parameter);
    if (found != narrow_.end()) return found->second;
    auto derive = rewriter.builder().derive(*cast);
    return narrow_[parameter] = rewriter.builder().call("cast", {own}, cast->attrs);
  }

  // All graphs of a step cut the same parameters.
  void store_shard(const Value& parameter) const {
    std::map<std::string, ValueId>& stored = context_.load.stored;
    const auto found = stored.find(parameter.name);
    if (found == stored.end()) return;
    Builder load(context_.load.graph, context_.ops);
    load.set_phase(Phase::kLoad);
    const int64_t part = cut_.part(parameter.type).shape.elements();
    // A slice of a file's tensor itself is a part of the model.
    const ValueId whole =
        load.call("reshape", {found->second},
                  {{"shape", std::vector<int64_t>{parameter.type.shape.elements()}}});
    const ValueId flat = cut_.flat(load, whole);
    stored.erase(found);
    stored[shard_name(parameter.name)] =
        ops::slice(load, flat, 0, context_.rank * part, (context_.rank + 1) * part);
  }

  const Graph& graph_;
  PassContext& context_;
  Cut cut_;
  bool frees_;                                     // the parameters of a layer after each pass
  std::map<ValueId, const Node*> cast_of_;         // null: read in fp32
  std::map<ValueId, std::vector<ValueId>> reads_;  // the values by which a parameter is read
  std::map<ValueId, ValueId> narrow_;              // shards in 16 bits, in the new graph
  std::vector<Section> sections_;                  // in the order in which they begin
  size_t next_ = 0;
};

// Parts of gradients, and the nodes that read them.
class Scatterer {
 public:
  Scatterer(const Graph& graph,
            const PassContext& context,
            const Gatherer& parameters,
            int64_t stage)
      : graph_(graph),
        cut_{context.ranks},
        parameters_(parameters),
        sums_parts_(stage >= 2),
        exchanged_(graph) {
    std::vector<ValueId> gradients;
    for (const Node& node : graph.nodes) {
      const bool updates = is_cut_update(node);
      if (!updates && !is_cut_sum(node, ops::accumulate_op())) continue;
      const ValueId gradient = updates ? sum_of(gradient_of(node)) : node.inputs[1];
      if (updates && sums_parts_ && graph.producer(gradient) == nullptr)
        states_.push_back(gradient);
      else
        gradients.push_back(gradient);
    }
    buckets_ = exchanged_.buckets(gradients);
    for (const ValueId loss : exchanged_.losses())
      losses_.push_back({graph.value(loss).producer, 0, {loss}});
  }

  void begin(Rewriter& rewriter) {
    for (const ValueId each : states_) parts_[each] = part_state(rewriter, each);
  }
  void advance(Rewriter& rewriter, NodeId id) {
    while (next_loss_ < losses_.size() && losses_[next_loss_].ready < id)
      average(rewriter, losses_[next_loss_++]);
    while (next_ < buckets_.size() && buckets_[next_].ready < id)
      scatter(rewriter, buckets_[next_++]);
  }
  // Returns whether the node reads parts now.
  bool rewrite(Rewriter& rewriter, const Node& node) {
    Builder& b = rewriter.builder();
    if (is_cut_update(node)) {
      update(rewriter, node);
    } else if (is_cut_sum(node, ops::accumulate_op())) {
      const ValueId sum = part_sum(rewriter, node.inputs[0]);
      auto derive = b.derive(node);
      parts_[node.outputs[0]] = b.call("accumulate", {sum, parts_.at(node.inputs[1])});
    } else if (is_a(node, ops::all_reduce_op()) && parts_.contains(node.inputs[0])) {
      auto derive = b.derive(node);
      parts_[node.outputs[0]] = b.call("all_reduce", {parts_.at(node.inputs[0])}, node.attrs);
    } else if (is_cut_sum(node, ops::zero_op())) {
      const ValueId sum = part_sum(rewriter, node.inputs[0]);
      auto derive = b.derive(node);
      b.call("zero", {sum});
    } else if (is_a(node, ops::sum_squares_op()) && parts_.contains(node.inputs[0])) {
      sum_squares(rewriter, node);
    } else {
      return false;
    }
    return true;
  }

 private:
  static ValueId gradient_of(const Node& adamw) {
    const int first = ops::adamw_tensors(adamw.inputs.size(), adamw.attrs)[0].input;
    return adamw.inputs[static_cast<size_t>(first) + 1];
  }
  bool is_cut_update(const Node& node) const {
    return is_a(node, ops::adamw_op()) && parameters_.has(parameter_of(node));
  }
  // Whether the node adds to, or clears, a sum of gradients of which each rank has a part.
  bool is_cut_sum(const Node& node, const Op& op) const {
    return sums_parts_ && is_a(node, op) &&
           !graph_.value(state_of(node.inputs[0])).name.ends_with(kShard);
  }
  // The state of which the value is a version.
  ValueId state_of(ValueId value) const {
    const Node* producer = graph_.producer(value);
    return producer == nullptr ? value : state_of(producer->inputs[0]);
  }
  // The sum of micro-batches by which two stages that have a table add up its gradient.
  ValueId sum_of(ValueId gradient) const {
    const Node* producer = graph_.producer(gradient);
    const bool is_state =
        is_a(producer, ops::all_reduce_op()) && graph_.producer(producer->inputs[0]) == nullptr;
    return sums_parts_ && is_state ? producer->inputs[0] : gradient;
  }

  // The rank's part of a sum, which other nodes may have added to.
  ValueId part_sum(Rewriter& rewriter, ValueId sum) {
    const auto found = parts_.find(sum);
    return found != parts_.end() ? found->second : part_state(rewriter, sum);
  }
  ValueId part_state(Rewriter& rewriter, ValueId state) {
    const Value& value = graph_.value(state);
    if (std::count(dropped_.begin(), dropped_.end(), state) == 0) {
      rewriter.drop(state);
      dropped_.push_back(state);
    }
    return rewriter.builder().state(shard_name(value.name), cut_.part(value.type));
  }

  void average(Rewriter& rewriter, const Bucket& loss) {
    Builder& b = rewriter.builder();
    // A view has no origin of its own.
    const Node* maker = graph_.producer(loss.values[0]);
    while (maker->from.empty() && graph_.producer(maker->inputs[0]) != nullptr)
      maker = graph_.producer(maker->inputs[0]);
    auto derive = b.derive(maker->from, "zero", Phase::kForward);
    const ValueId value = rewriter.map(loss.values[0]);
    const ValueId input = exchanged_.needs_copy(loss.values[0]) ? b.call("copy", {value}) : value;
    rewriter.replace(loss.values[0], b.call("all_reduce", {input}, cut_.averaging()));
  }

  void scatter(Rewriter& rewriter, const Bucket& bucket) {
    Builder& b = rewriter.builder();
    {
      auto derive = b.derive(exchanged_.origins(bucket.values), "zero", Phase::kBackward);
      std::vector<ValueId> wholes;
      for (const ValueId value : bucket.values) wholes.push_back(cut_.flat(b, rewriter.map(value)));
      const std::vector<ValueId> parts = b.call_all("reduce_scatter", wholes, cut_.averaging());
      for (size_t i = 0; i < parts.size(); ++i) parts_[bucket.values[i]] = parts[i];
    }
    for (const ValueId value : bucket.values)
      for (const NodeId user : exchanged_.users(value)) {
        const Node& node = graph_.node(user);
        if (!exchanged_.is_widening_cast(node)) continue;
        auto derive = b.derive(node);
        parts_[node.outputs[0]] = b.call("cast", {parts_.at(value)}, node.attrs);
      }
  }

  void update(Rewriter& rewriter, const Node& node) {
    Builder& b = rewriter.builder();
    const ValueId parameter = parameter_of(node);
    const std::string& name = graph_.value(parameter).name;
    const auto at = std::find(node.inputs.begin(), node.inputs.end(), parameter);
    std::vector<ValueId> inputs;
    for (auto each = node.inputs.begin(); each != at; ++each) inputs.push_back(rewriter.map(*each));
    const ValueId own = parameters_.shard(rewriter, parameter);
    inputs.insert(inputs.end(), {own, parts_.at(at[1])});
    // A moment is found by the name of what is stored.
    for (const ValueId moment : {at[2], at[3]}) {
      rewriter.drop(moment);
      inputs.push_back(
          b.state(shard_name(name) + graph_.value(moment).name.substr(name.size()), b.type(own)));
    }
    auto derive = b.derive(node);
    b.call_all("adamw", inputs, node.attrs);
  }

  void sum_squares(Rewriter& rewriter, const Node& node) {
    Builder& b = rewriter.builder();
    std::vector<ValueId> inputs;
    for (const ValueId each : node.inputs) inputs.push_back(parts_.at(each));
    ValueId sum = kNoValue;
    {
      auto derive = b.derive(node);
      sum = b.call("sum_squares", inputs);
    }
    auto derive = b.derive(node.from, "zero", node.phase);
    rewriter.replace(node.outputs[0], b.call("all_reduce", {sum}, cut_.attrs()));
  }

  const Graph& graph_;
  Cut cut_;
  const Gatherer& parameters_;
  bool sums_parts_;
  ExchangedGradients exchanged_;
  std::vector<Bucket> buckets_, losses_;
  size_t next_ = 0, next_loss_ = 0;
  std::vector<ValueId> states_;       // gradients that earlier graphs summed up
  std::vector<ValueId> dropped_;      // states of whole sums
  std::map<ValueId, ValueId> parts_;  // by the old gradient
};

}  // namespace

Graph run_zero(const Graph& graph, PassContext& context) {
  if (!context.number) return graph;
  const int64_t stage = *context.number;
  Gatherer gatherer(graph, context, stage);
  Scatterer scatterer(graph, context, gatherer, stage);
  bool has_begun = false;
  const auto visit = [&](Rewriter& rewriter, NodeId id) {
    if (!std::exchange(has_begun, true)) {
      gatherer.begin(rewriter);
      scatterer.begin(rewriter);
    }
    gatherer.advance(rewriter, id);
    scatterer.advance(rewriter, id);
    const Node& node = graph.node(id);
    return gatherer.is_replaced(node) || scatterer.rewrite(rewriter, node);
  };
  const auto end = static_cast<NodeId>(graph.nodes.size());
  return Rewriter(graph, context.ops).run(visit, [&](Rewriter& rewriter) {
    scatterer.advance(rewriter, end);
  });
}

}  // namespace ridge::passes
