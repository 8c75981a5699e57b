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

void add_store(const Graph& graph, std::set<std::string>& seen, int64_t* bytes) {
  std::vector<std::vector<NodeId>> users = graph.users();
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.producer != kNoNode || value.storage == Storage::kTemporary) continue;
    if (!seen.insert(value.name).second) continue;
    int64_t size = storage_bytes(value.type.dtype, value.type.shape.elements());
    bytes[static_cast<size_t>(class_of(graph, static_cast<ValueId>(i), users))] +=
        round_up(std::max<int64_t>(size, 1), kAlignmentBytes);
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
    add_store(each.graph(), seen, record.store_bytes);
    record.arena_bytes = std::max(record.arena_bytes, each.costed->memory.arena_bytes);
  }
  for (const cost::ProgramGraph& each : graphs) add_points(each, record);
  record.owned_bytes = std::accumulate(std::begin(record.store_bytes), std::end(record.store_bytes),
                                       record.arena_bytes);
  if (const MemoryPoint* peak = record.peak()) record.live_peak_bytes = peak->live.total();
  return record;
}

}  // namespace ridge::record
