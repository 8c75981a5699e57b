// SPDX-License-Identifier: Apache-2.0
// Simulates the stages to find the order of their tasks, and copies nodes in that order.
#include "passes/pipeline_schedule.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "ops/build.h"
#include "ops/registry.h"
#include "plan/rank_layout.h"

namespace ridge::passes {
namespace {

using Task = PipelineTask;
using Kind = PipelineTask::Kind;

class Simulation {
 public:
  explicit Simulation(const PipelineShape& shape)
      : shape_(shape),
        stages_(static_cast<size_t>(shape.stages)),
        inputs_(static_cast<size_t>(shape.parts()), Marks(count(shape), 0)),
        gradients_(inputs_) {
    inputs_[0].assign(count(shape), 1);
    for (int64_t s = 0; s < shape.stages; ++s) {
      Stage& stage = stages_[static_cast<size_t>(s)];
      stage.most_begun = shape.chunks == 1
                             ? shape.stages - s
                             : 2 * (shape.stages - s - 1) + (shape.chunks - 1) * shape.stages + 1;
      if (!shape.trains) stage.most_begun = std::numeric_limits<int64_t>::max() / 2;
    }
    // Micro-batches pass the chunks in groups of as many as there are stages.
    for (int64_t group = 0; group < shape.micro_batches; group += shape.stages)
      for (int64_t chunk = 0; chunk < shape.chunks; ++chunk)
        for (int64_t i = group; i < std::min(group + shape.stages, shape.micro_batches); ++i)
          for (Stage& stage : stages_) {
            stage.forward.push_back({Kind::kForward, chunk, i});
            if (shape.trains)
              stage.backward.push_back({Kind::kBackward, shape.chunks - 1 - chunk, i});
          }
  }

  std::vector<std::vector<Task>> run() {
    for (double now = 0;;) {
      for (int64_t s = 0; s < shape_.stages; ++s) finish(s, now);
      for (int64_t s = 0; s < shape_.stages; ++s) begin(s, now);
      double next = std::numeric_limits<double>::infinity();
      bool is_done = true;
      for (const Stage& each : stages_) {
        if (each.is_busy) next = std::min(next, each.ends);
        is_done = is_done && !each.is_busy && each.is_done();
      }
      if (is_done) break;
      if (next == std::numeric_limits<double>::infinity())
        for (Stage& each : stages_) ++each.most_begun;  // all wait: let them begin more
      else
        now = next;
    }
    std::vector<std::vector<Task>> tasks;
    for (Stage& each : stages_) tasks.push_back(std::move(each.tasks));
    return tasks;
  }

 private:
  using Marks = std::vector<char>;
  struct Stage {
    std::deque<Task> forward, backward, weights;  // not begun yet
    int64_t begun = 0;  // forward passes whose backward pass has not begun
    int64_t kept = 0;   // forward passes whose gradients of weights are not computed yet
    int64_t most_begun = 0;
    bool is_busy = false;
    double ends = 0;
    std::vector<Task> tasks = {};

    bool is_done() const { return forward.empty() && backward.empty() && weights.empty(); }
  };

  static size_t count(const PipelineShape& shape) {
    return static_cast<size_t>(shape.micro_batches);
  }
  size_t part(int64_t stage, const Task& task) const {
    return static_cast<size_t>(task.chunk * shape_.stages + stage);
  }
  Stage& at(size_t part) { return stages_[part % static_cast<size_t>(shape_.stages)]; }
  Task transfer(Kind kind, size_t part, int64_t micro_batch) const {
    return {kind, static_cast<int64_t>(part) / shape_.stages, micro_batch};
  }
  bool is_ready(const std::vector<Marks>& marks, int64_t stage, const std::deque<Task>& of) const {
    return !of.empty() &&
           marks[part(stage, of.front())][static_cast<size_t>(of.front().micro_batch)] != 0;
  }
  // Nobody waits for the gradients that the first part would send.
  bool puts_off(size_t part) const {
    return shape_.order == PipelineOrder::kZeroBubble && part > 0;
  }

  void begin(int64_t s, double now) {
    Stage& stage = stages_[static_cast<size_t>(s)];
    if (stage.is_busy) return;
    const bool has_room =
        stage.begun < stage.most_begun && (shape_.order != PipelineOrder::kZeroBubble ||
                                           stage.kept < std::max(shape_.stages, stage.most_begun));
    std::deque<Task>* from = nullptr;
    if (is_ready(gradients_, s, stage.backward))
      from = &stage.backward;
    else if (has_room && is_ready(inputs_, s, stage.forward))
      from = &stage.forward;
    else if (!stage.weights.empty())
      from = &stage.weights;
    if (from == nullptr) return;
    const Task task = from->front();
    from->pop_front();
    const bool is_split = puts_off(part(s, task));
    stage.is_busy = true;
    stage.ends = now + (task.kind == Kind::kBackward && !is_split ? 2 : 1);
    if (task.kind == Kind::kForward) ++stage.begun, ++stage.kept;
    if (task.kind == Kind::kBackward) --stage.begun;
    if (task.kind == Kind::kWeights || (task.kind == Kind::kBackward && !is_split)) --stage.kept;
    stage.tasks.push_back(task);
  }

  void finish(int64_t s, double now) {
    Stage& stage = stages_[static_cast<size_t>(s)];
    if (!stage.is_busy || stage.ends > now) return;
    stage.is_busy = false;
    const Task task = *std::ranges::find_if(stage.tasks.rbegin(), stage.tasks.rend(), [](auto& t) {
      return t.kind == Kind::kForward || t.kind == Kind::kBackward || t.kind == Kind::kWeights;
    });
    const size_t own = part(s, task);
    const int64_t i = task.micro_batch;
    if (task.kind == Kind::kForward && own + 1 < inputs_.size()) {
      stage.tasks.push_back(transfer(Kind::kSendHidden, own, i));
      at(own + 1).tasks.push_back(transfer(Kind::kReceiveHidden, own + 1, i));
      inputs_[own + 1][static_cast<size_t>(i)] = 1;
    } else if (task.kind == Kind::kForward) {
      gradients_[own][static_cast<size_t>(i)] = 1;
    } else if (task.kind == Kind::kBackward && own > 0) {
      stage.tasks.push_back(transfer(Kind::kSendGradient, own, i));
      at(own - 1).tasks.push_back(transfer(Kind::kReceiveGradient, own - 1, i));
      gradients_[own - 1][static_cast<size_t>(i)] = 1;
    }
    if (task.kind == Kind::kBackward && puts_off(own))
      stage.weights.push_back({Kind::kWeights, task.chunk, i});
  }

  const PipelineShape shape_;
  std::vector<Stage> stages_;
  std::vector<Marks> inputs_, gradients_;  // by part and micro-batch: whether they are there
};

// The nodes of a part, by the task that runs them.
class Segments {
 public:
  Segments(const Graph& graph, bool puts_off) : graph_(graph), by_kind_(kKinds) {
    NodeId first_backward = static_cast<NodeId>(graph.nodes.size());
    for (size_t i = graph.nodes.size(); i-- > 0;)
      if (graph.nodes[i].phase == Phase::kBackward) first_backward = static_cast<NodeId>(i);
    needed_.assign(graph.nodes.size(), !puts_off);
    if (puts_off) find_needed(first_backward);
    for (NodeId id = 0; id < static_cast<NodeId>(graph.nodes.size()); ++id) {
      const Node& node = graph.node(id);
      const bool is_forward = id < first_backward;
      Kind kind = is_forward                         ? Kind::kForward
                  : needed_[static_cast<size_t>(id)] ? Kind::kBackward
                                                     : Kind::kWeights;
      if (is_a(node, ops::send_op()))
        kind = node.phase == Phase::kForward ? Kind::kSendHidden : Kind::kSendGradient;
      if (is_a(node, ops::receive_op()))
        kind = node.phase == Phase::kForward ? Kind::kReceiveHidden : Kind::kReceiveGradient;
      by_kind_[static_cast<size_t>(kind)].push_back(id);
    }
  }

  const std::vector<NodeId>& of(Kind kind) const { return by_kind_[static_cast<size_t>(kind)]; }

 private:
  static constexpr size_t kKinds = static_cast<size_t>(Kind::kWeights) + 1;

  // The first value in the buffer of each value.
  std::vector<ValueId> buffers() const {
    std::vector<ValueId> first(graph_.values.size());
    for (size_t i = 0; i < first.size(); ++i) first[i] = static_cast<ValueId>(i);
    for (const Node& node : graph_.nodes) {
      const auto join = [&](ValueId output, ValueId input) {
        first[static_cast<size_t>(output)] = first[static_cast<size_t>(input)];
      };
      if (node.op->kind == OpKind::kView) join(node.outputs[0], node.inputs[0]);
      for (const Alias& each : aliases(graph_, node))
        join(node.outputs[static_cast<size_t>(each.output)],
             node.inputs[static_cast<size_t>(each.input)]);
    }
    return first;
  }

  void need(NodeId id) {
    if (needed_[static_cast<size_t>(id)]) return;
    needed_[static_cast<size_t>(id)] = true;
    for (const ValueId input : graph_.node(id).inputs)
      if (const NodeId producer = graph_.value(input).producer; producer != kNoNode) need(producer);
  }

  // These are the nodes that make the sent gradient, and those that read a buffer before they
  // overwrite it.
  void find_needed(NodeId first_backward) {
    const std::vector<ValueId> buffer = buffers();
    const auto count = static_cast<NodeId>(graph_.nodes.size());
    for (NodeId id = first_backward; id < count; ++id)
      if (is_a(graph_.node(id), ops::send_op())) need(id);
    for (bool grows = true; grows;) {
      grows = false;
      std::vector<char> overwritten(buffer.size(), 0);  // by a needed node further down
      for (NodeId id = count; id-- > first_backward;) {
        const Node& node = graph_.node(id);
        const auto is_overwritten = [&](ValueId each) {
          return overwritten[static_cast<size_t>(buffer[static_cast<size_t>(each)])] != 0;
        };
        if (!needed_[static_cast<size_t>(id)] && std::ranges::any_of(node.inputs, is_overwritten))
          need(id), grows = true;
        if (!needed_[static_cast<size_t>(id)]) continue;
        for (const Alias& each : aliases(graph_, node))
          overwritten[static_cast<size_t>(
              buffer[static_cast<size_t>(node.inputs[static_cast<size_t>(each.input)])])] = 1;
      }
    }
  }

  const Graph& graph_;
  std::vector<std::vector<NodeId>> by_kind_;
  std::vector<bool> needed_;
};

// A part and what its micro-batches were copied to.
class PartCopies {
 public:
  PartCopies(const Graph& of, bool puts_off, int64_t micro_batches)
      : graph(of),
        segments(of, puts_off),
        maps_(static_cast<size_t>(micro_batches), std::vector<ValueId>(of.values.size(), kNoValue)),
        first_origins_(static_cast<size_t>(micro_batches), -1) {
    find_shared();
  }

  ValueId& value(ValueId old, int64_t micro_batch) {
    const NodeId producer = graph.value(old).producer;
    const bool is_shared = producer != kNoNode && shared_[static_cast<size_t>(producer)];
    return maps_[is_shared ? 0 : static_cast<size_t>(micro_batch)][static_cast<size_t>(old)];
  }
  // Whether one copy, such as a weight in 16 bits, serves all micro-batches, and it is made.
  bool is_made(NodeId id) const {
    const ValueId output = graph.node(id).outputs[0];
    return shared_[static_cast<size_t>(id)] && maps_[0][static_cast<size_t>(output)] != kNoValue;
  }
  // The origins of a micro-batch are its own: model FLOPs count each.
  std::vector<Origin> origins(const Node& node, int64_t micro_batch, Graph& to) {
    int32_t& first = first_origins_[static_cast<size_t>(micro_batch)];
    if (first < 0) {
      first = static_cast<int32_t>(to.origins.size());
      to.origins.insert(to.origins.end(), graph.origins.begin(), graph.origins.end());
    }
    std::vector<Origin> from = node.from;
    for (Origin& each : from) each.id += first;
    return from;
  }

  const Graph& graph;
  const Segments segments;

 private:
  // Forward nodes that read parameters alone, and that nothing overwrites.
  void find_shared() {
    shared_.assign(graph.nodes.size(), false);
    std::vector<char> overwritten(graph.values.size(), 0);
    for (const Node& node : graph.nodes)
      for (const Alias& each : aliases(graph, node))
        overwritten[static_cast<size_t>(node.inputs[static_cast<size_t>(each.input)])] = 1;
    for (size_t i = 0; i < graph.nodes.size(); ++i) {
      const Node& node = graph.nodes[i];
      if (node.phase != Phase::kForward || node.inputs.empty() || is_collective(node)) continue;
      shared_[i] = std::ranges::all_of(node.inputs,
                                       [&](ValueId input) {
                                         const Value& value = graph.value(input);
                                         return value.producer == kNoNode
                                                    ? value.storage == Storage::kParameter
                                                    : shared_[static_cast<size_t>(value.producer)];
                                       }) &&
                   std::ranges::none_of(node.outputs,
                                        [&](ValueId output) {
                                          return overwritten[static_cast<size_t>(output)] != 0;
                                        }) &&
                   aliases(graph, node).empty();
    }
  }

  std::vector<bool> shared_;
  std::vector<std::vector<ValueId>> maps_;  // by micro-batch and value
  std::vector<int32_t> first_origins_;      // by micro-batch: -1 before any is copied
};

class Joiner {
 public:
  Joiner(const OpTable& ops, const PipelineShape& shape, int64_t stage, int64_t inputs)
      : b_(graph_, ops), shape_(shape), stage_(stage), inputs_(inputs) {}

  Graph join(std::span<const Graph> parts) {
    for (size_t chunk = 0; chunk < parts.size(); ++chunk)
      parts_.emplace_back(parts[chunk], puts_off(chunk), shape_.micro_batches);
    const std::vector<std::vector<Task>> tasks = pipeline_tasks(shape_);
    for (const Task& each : tasks[static_cast<size_t>(stage_)]) run(each);
    append_loss();
    return std::move(graph_);
  }

 private:
  bool puts_off(size_t chunk) const {
    return shape_.order == PipelineOrder::kZeroBubble && shape_.trains && (stage_ > 0 || chunk > 0);
  }

  void run(const Task& task) {
    PartCopies& part = parts_[static_cast<size_t>(task.chunk)];
    for (const NodeId id : part.segments.of(task.kind))
      if (!part.is_made(id)) copy(part, id, task.micro_batch);
  }

  void copy(PartCopies& part, NodeId id, int64_t micro_batch) {
    const Node& node = part.graph.node(id);
    std::vector<ValueId> inputs;
    for (const ValueId each : node.inputs) inputs.push_back(map(part, each, micro_batch));
    const auto derive = b_.derive(part.origins(node, micro_batch, graph_), node.scope, node.phase);
    const std::vector<ValueId> outputs = b_.call_all(node.op->name, inputs, node.attrs);
    for (size_t i = 0; i < outputs.size(); ++i)
      part.value(node.outputs[i], micro_batch) = outputs[i];
    for (const Alias& each : aliases(part.graph, node)) {
      const Value& updated = part.graph.value(node.inputs[static_cast<size_t>(each.input)]);
      RIDGE_CHECK(updated.producer == kNoNode || updated.storage != Storage::kState,
                  "a state that one micro-batch updates twice");
      if (updated.producer == kNoNode)
        versions_[updated.name] = outputs[static_cast<size_t>(each.output)];
    }
  }

  ValueId map(PartCopies& part, ValueId old, int64_t micro_batch) {
    const Value& value = part.graph.value(old);
    if (value.producer != kNoNode) {
      const ValueId made = part.value(old, micro_batch);
      RIDGE_CHECK(made != kNoValue, "%{} of a part is read before it is made", old);
      return made;
    }
    if (value.storage == Storage::kInput) return input_of(value, micro_batch);
    if (const auto found = versions_.find(value.name); found != versions_.end())
      return found->second;
    const ValueId made = value.storage == Storage::kParameter ? b_.parameter(value.name, value.type)
                                                              : b_.state(value.name, value.type);
    graph_.value(made).frozen = value.frozen;
    return made;
  }

  // The part of an input of all micro-batches.
  ValueId input_of(const Value& value, int64_t micro_batch) {
    const Shape& shape = value.type.shape;
    if (inputs_ == 1 || shape.rank() == 0) return b_.input(value.name, value.type);
    const auto [found, is_new] = slices_.try_emplace({value.name, micro_batch}, kNoValue);
    if (is_new) {
      const ValueId all =
          b_.input(value.name, {value.type.dtype, shape.with(0, inputs_ * shape[0])});
      const auto derive = b_.derive({}, "pipeline", Phase::kForward);
      found->second = ops::slice(b_, all, 0, micro_batch * shape[0], (micro_batch + 1) * shape[0]);
    }
    return found->second;
  }

  // The mean over the micro-batches, from the last stage to all.
  void append_loss() {
    const Origin own{static_cast<int32_t>(graph_.origins.size()), Phase::kForward};
    graph_.origins.push_back({"all_reduce", "pipeline", Phase::kForward, {}});
    const auto derive = b_.derive({own}, "pipeline", Phase::kForward);
    ValueId sum = kNoValue;
    PartCopies& last = parts_.back();
    for (int64_t i = 0; i < shape_.micro_batches && !last.graph.outputs.empty(); ++i) {
      const ValueId loss = last.value(last.graph.outputs[0], i);
      sum = sum == kNoValue ? loss : ops::add(b_, sum, loss);
    }
    const ValueId mean =
        sum == kNoValue
            ? b_.call("fill", {},
                      {{"shape", std::vector<int64_t>{}}, {"value", 0.0}, {"dtype", "f32"}})
            : ops::scale(b_, sum, 1 / static_cast<double>(shape_.micro_batches));
    graph_.outputs = {
        b_.call("all_reduce", {mean},
                {{"group", std::string(plan::kPipelineGroup)}, {"ranks", shape_.stages}})};
  }

  Graph graph_;
  Builder b_;
  PipelineShape shape_;
  int64_t stage_, inputs_;
  std::vector<PartCopies> parts_;
  std::map<std::string, ValueId> versions_;  // the last ones of states
  std::map<std::pair<std::string, int64_t>, ValueId> slices_;
};

}  // namespace

PipelineOrder pipeline_order(std::string_view text) {
  if (text == "1f1b") return PipelineOrder::kOneForwardOneBackward;
  if (text == "interleaved") return PipelineOrder::kInterleaved;
  if (text == "zero-bubble") return PipelineOrder::kZeroBubble;
  throw usage_error("[pipeline-schedule] expected 1f1b, interleaved or zero-bubble, got {}",
                    printable(text));
}

std::vector<std::vector<PipelineTask>> pipeline_tasks(const PipelineShape& shape) {
  return Simulation(shape).run();
}

Graph join_parts(std::span<const Graph> parts,
                 const OpTable& ops,
                 const PipelineShape& shape,
                 int64_t stage,
                 int64_t inputs) {
  return Joiner(ops, shape, stage, inputs).join(parts);
}

}  // namespace ridge::passes
