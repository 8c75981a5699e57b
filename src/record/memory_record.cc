// SPDX-License-Identifier: Apache-2.0
// Builds the memory timeline from the memory plan.
#include "record/memory_record.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "base/arena.h"

namespace ridge::record {
namespace {

plan::MemoryClass class_of(const Graph& graph,
                           ValueId value,
                           const std::vector<std::vector<NodeId>>& users) {
  switch (graph.value(value).storage) {
    case Storage::kParameter:
      return plan::MemoryClass::kParameters;
    case Storage::kInput:
      return plan::MemoryClass::kData;
    default:
      break;
  }
  plan::MemoryClass found = plan::MemoryClass::kKvCache;
  for (NodeId user : users[static_cast<size_t>(value)]) {
    Phase phase = graph.node(user).phase;
    if (phase == Phase::kBackward) return plan::MemoryClass::kGradients;
    if (phase == Phase::kOptimizer) found = plan::MemoryClass::kOptimizerState;
  }
  return found;
}

void add_store(const Graph& graph, std::set<std::string>& seen, MemoryRecord& record) {
  std::vector<std::vector<NodeId>> users = graph.users();
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.producer != kNoNode || value.storage == Storage::kTemporary) continue;
    if (!seen.insert(value.name).second) continue;
    int64_t size = storage_bytes(value.type.dtype, value.type.shape.elements());
    LiveTensor stored;
    stored.name = value.name;
    stored.type = value.type.str();
    stored.memory_class = class_of(graph, static_cast<ValueId>(i), users);
    stored.bytes = round_up(std::max<int64_t>(size, 1), kAlignmentBytes);
    record.store_bytes[static_cast<size_t>(stored.memory_class)] += stored.bytes;
    record.at_peak.push_back(std::move(stored));
  }
}

// Adds the temporaries that are live while a node runs.
void add_live(const cost::CostedGraph& costed, NodeId at, std::vector<LiveTensor>& live) {
  for (const plan::Buffer& buffer : costed.memory.buffers) {
    if (at < buffer.first || at > buffer.last) continue;
    LiveTensor tensor;
    // Workspace belongs to the only node that it lives for.
    NodeId producer = buffer.first;
    if (buffer.root != kNoValue) {
      const Value& value = costed.graph.value(buffer.root);
      tensor.type = value.type.str();
      if (value.producer != kNoNode) producer = value.producer;
    }
    const Node& node = costed.graph.node(producer);
    tensor.op = node.op->name;
    tensor.scope = node.scope;
    tensor.phase = std::string(ridge::name(node.phase));
    tensor.memory_class = buffer.memory_class;
    tensor.bytes = buffer.bytes;
    live.push_back(std::move(tensor));
  }
}

void add_points(const cost::ProgramGraph& each, MemoryRecord& record) {
  std::vector<plan::MemoryMoment> moments = plan::memory_timeline(*each.costed);
  for (size_t i = 0; i < each.graph().nodes.size(); ++i) {
    const Node& node = each.graph().nodes[i];
    if (node.op->kind == OpKind::kView) continue;
    plan::MemoryMoment live = moments[i];
    for (int k = 0; k < plan::kMemoryClasses; ++k)
      live.bytes[k] += record.store_bytes[k] - each.costed->memory.store_bytes[k];
    record.timeline.push_back({each.name, static_cast<NodeId>(i), node.op->name, node.scope,
                               std::string(ridge::name(node.phase)), live});
  }
}

}  // namespace

plan::MemoryMoment MemoryRecord::class_peaks() const {
  plan::MemoryMoment peaks;
  for (const MemoryPoint& point : timeline)
    for (int i = 0; i < plan::kMemoryClasses; ++i)
      peaks.bytes[i] = std::max(peaks.bytes[i], point.live.bytes[i]);
  return peaks;
}

const MemoryPoint* MemoryRecord::peak() const {
  auto highest = std::max_element(
      timeline.begin(), timeline.end(),
      [](const auto& a, const auto& b) { return a.live.total() < b.live.total(); });
  return highest == timeline.end() ? nullptr : &*highest;
}

MemoryRecord planned_memory(std::span<const cost::ProgramGraph> graphs) {
  MemoryRecord record;
  std::set<std::string> seen;
  for (const cost::ProgramGraph& each : graphs) {
    add_store(each.graph(), seen, record);
    record.arena_bytes = std::max(record.arena_bytes, each.costed->memory.arena_bytes);
  }
  for (const cost::ProgramGraph& each : graphs) add_points(each, record);
  record.owned_bytes = std::accumulate(std::begin(record.store_bytes), std::end(record.store_bytes),
                                       record.arena_bytes);
  if (const MemoryPoint* peak = record.peak()) {
    record.live_peak_bytes = peak->live.total();
    for (const cost::ProgramGraph& each : graphs)
      if (each.name == peak->graph) add_live(*each.costed, peak->node, record.at_peak);
  }
  std::stable_sort(record.at_peak.begin(), record.at_peak.end(),
                   [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
  return record;
}

}  // namespace ridge::record
