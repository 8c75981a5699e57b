// SPDX-License-Identifier: Apache-2.0
// Computes liveness, in-place sharing, and offsets: largest buffers first, each at the lowest
// offset that is free during its life.
#include "plan/planner.h"

#include <algorithm>
#include <numeric>

#include "base/arena.h"
#include "base/error.h"
#include "plan/occupancy.h"

namespace ridge::plan {
namespace {

class Planner {
 public:
  Planner(const Graph& graph, const std::vector<Place>& places, const Target& target)
      : graph_(graph), places_(places), target_(target) {}

  MemoryPlan run() {
    plan_.buffer_of.assign(graph_.values.size(), -1);
    plan_.workspace_of.assign(graph_.nodes.size(), -1);
    find_last_uses();
    find_releases();
    sum_store();
    for (size_t i = 0; i < graph_.nodes.size(); ++i) add_node(static_cast<NodeId>(i));
    for (size_t i = 0; i < graph_.values.size(); ++i)
      plan_.buffer_of[i] = plan_.buffer_of[root(static_cast<ValueId>(i))];
    assign_offsets();
    return std::move(plan_);
  }

 private:
  size_t root(ValueId value) const { return static_cast<size_t>(at(places_, value).root); }

  void find_last_uses() {
    last_.assign(graph_.values.size(), -1);
    for (size_t i = 0; i < graph_.nodes.size(); ++i) {
      for (ValueId input : graph_.nodes[i].inputs) last_[root(input)] = static_cast<NodeId>(i);
      for (ValueId output : graph_.nodes[i].outputs)
        last_[root(output)] = std::max(last_[root(output)], static_cast<NodeId>(i));
    }
    for (ValueId output : graph_.outputs)
      last_[root(output)] = static_cast<NodeId>(graph_.nodes.size());
  }

  // Sets release_[i]: the node after which the bytes of a buffer last used by node i may be reused.
  void find_releases() {
    release_.resize(graph_.nodes.size() + 1);
    const BranchSlack slack = target_.branch_slack(graph_);
    std::vector<NodeId> later;  // nodes with kernels, the nearest last
    for (size_t i = graph_.nodes.size() + 1; i-- > 0;) {
      bool is_node = i < graph_.nodes.size();
      bool is_update = is_node && graph_.nodes[i].phase == Phase::kOptimizer;
      size_t count = static_cast<size_t>(is_update ? slack.updates : slack.kernels);
      release_[i] = !slack.any()           ? static_cast<NodeId>(i)
                    : later.size() < count ? static_cast<NodeId>(graph_.nodes.size())
                                           : later[later.size() - count];
      if (is_node && graph_.nodes[i].op->kind != OpKind::kView)
        later.push_back(static_cast<NodeId>(i));
    }
  }

  void sum_store() {
    for (const Value& value : graph_.values) {
      if (value.producer != kNoNode || value.storage == Storage::kTemporary) continue;
      MemoryClass memory_class = value.storage == Storage::kParameter ? MemoryClass::kParameters
                                 : value.storage == Storage::kState   ? MemoryClass::kOptimizerState
                                                                      : MemoryClass::kData;
      plan_.store_bytes[static_cast<size_t>(memory_class)] +=
          round_up(storage_bytes(value.type.dtype, value.type.shape.elements()), kAlignmentBytes);
    }
  }

  void add_node(NodeId id) {
    const Node& node = graph_.node(id);
    for (size_t o = 0; o < node.outputs.size(); ++o) {
      size_t home = root(node.outputs[o]);
      if (graph_.values[home].storage != Storage::kTemporary || plan_.buffer_of[home] >= 0)
        continue;
      // The first part with a place inside a concat allocates the buffer of the concat's output.
      int shared = shared_buffer(id, o, home);
      if (shared >= 0) {
        plan_.buffer_of[home] = shared;
        Buffer& buffer = plan_.buffers[static_cast<size_t>(shared)];
        buffer.last = std::max(buffer.last, last_[home]);
        continue;
      }
      const Type& type = graph_.values[home].type;
      int64_t bytes = round_up(
          std::max<int64_t>(storage_bytes(type.dtype, type.shape.elements()), 1), kAlignmentBytes);
      plan_.buffer_of[home] = static_cast<int>(plan_.buffers.size());
      plan_.buffers.push_back(
          {static_cast<ValueId>(home), id, last_[home], bytes, 0, classify(home, node)});
    }
    int64_t workspace = target_.workspace_bytes(graph_, node);
    if (workspace > 0) {
      plan_.workspace_of[static_cast<size_t>(id)] = static_cast<int>(plan_.buffers.size());
      plan_.buffers.push_back(
          {kNoValue, id, id, round_up(workspace, kAlignmentBytes), 0, MemoryClass::kWorkspace});
    }
  }

  // Returns the buffer of an input that is last used here and that the output may overwrite, or -1.
  int shared_buffer(NodeId id, size_t output, size_t home) {
    const Node& node = graph_.node(id);
    if (static_cast<ValueId>(home) != node.outputs[output]) return -1;
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      ValueId input = node.inputs[i];
      size_t input_home = root(input);
      int buffer = plan_.buffer_of[input_home];
      if (buffer < 0 || plan_.buffers[static_cast<size_t>(buffer)].last != id) continue;
      bool taken = false;  // by an earlier output, which may be last used here as well
      for (size_t o = 0; o < output; ++o)
        taken = taken || plan_.buffer_of[root(node.outputs[o])] == buffer;
      if (taken) continue;
      bool same = graph_.type(input) == graph_.type(node.outputs[output]) &&
                  at(places_, input).layout.offset == 0 &&
                  is_dense(graph_.shape(input), at(places_, input).layout) &&
                  graph_.values[input_home].type.shape.elements() == graph_.shape(input).elements();
      // Another view of the same bytes would be read after they changed.
      for (ValueId other : node.inputs)
        same = same && (root(other) != input_home ||
                        at(places_, other).layout == at(places_, input).layout);
      if (same &&
          target_.runs_in_place(graph_, node, static_cast<int>(output), static_cast<int>(i)))
        return buffer;
    }
    return -1;
  }

  // A value that the backward pass computes and the optimizer uses last is a gradient. Everything
  // else except workspaces counts as an activation.
  MemoryClass classify(size_t home, const Node& producer) const {
    NodeId last = last_[home];
    bool to_optimizer = last >= 0 && last < static_cast<NodeId>(graph_.nodes.size()) &&
                        graph_.node(last).phase == Phase::kOptimizer &&
                        producer.phase == Phase::kBackward;
    return to_optimizer ? MemoryClass::kGradients : MemoryClass::kActivations;
  }

  NodeId release(const Buffer& buffer) const { return release_[static_cast<size_t>(buffer.last)]; }

  void assign_offsets() {
    std::vector<size_t> order(plan_.buffers.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return plan_.buffers[a].bytes > plan_.buffers[b].bytes;
    });
    Occupancy occupancy(static_cast<int64_t>(graph_.nodes.size()) + 1);
    for (size_t index : order) {
      Buffer& buffer = plan_.buffers[index];
      const NodeId last = release(buffer);
      buffer.offset = occupancy.lowest_free(buffer.first, last, buffer.bytes);
      occupancy.occupy(buffer.first, last, buffer.offset, buffer.offset + buffer.bytes);
      plan_.arena_bytes = std::max(plan_.arena_bytes, buffer.offset + buffer.bytes);
    }
    std::vector<int64_t> change(graph_.nodes.size() + 2, 0);
    for (const Buffer& buffer : plan_.buffers) {
      change[static_cast<size_t>(buffer.first)] += buffer.bytes;
      change[static_cast<size_t>(buffer.last) + 1] -= buffer.bytes;
    }
    int64_t live = 0;
    for (int64_t delta : change)
      plan_.live_peak_bytes = std::max(plan_.live_peak_bytes, live += delta);
  }

  const Graph& graph_;
  const std::vector<Place>& places_;
  const Target& target_;
  MemoryPlan plan_;
  std::vector<NodeId> last_;     // per root
  std::vector<NodeId> release_;  // per node
};

}  // namespace

std::string_view name(MemoryClass memory_class) {
  constexpr std::string_view kNames[] = {
      "parameters", "gradients", "optimizer_state", "kv_cache", "activations", "workspace", "data"};
  return kNames[static_cast<size_t>(memory_class)];
}

int64_t MemoryPlan::owned_bytes() const {
  return std::accumulate(std::begin(store_bytes), std::end(store_bytes), arena_bytes);
}

MemoryPlan plan_memory(const Graph& graph, const std::vector<Place>& places, const Target& target) {
  return Planner(graph, places, target).run();
}

}  // namespace ridge::plan
