// SPDX-License-Identifier: Apache-2.0
// Plans in order: places, calls, memory, branches.
#include "plan/planned_graph.h"

#include <algorithm>
#include <numeric>

#include "plan/dependences.h"

namespace ridge::plan {
namespace {

// Whether each part of a concat already lies in its output.
bool is_joined(const PlannedGraph& planned, const Node& node) {
  const ValueId root = at(planned.places, node.outputs[0]).root;
  return node.op->joins && std::all_of(node.inputs.begin(), node.inputs.end(), [&](ValueId part) {
           return at(planned.places, part).root == root;
         });
}

KernelCalls calls_of(const PlannedGraph& planned, const Node& node, const Target& target) {
  if (node.op->kind == OpKind::kView || is_joined(planned, node)) return {};
  return {target.launches(planned.graph, node), target.rounds(planned.graph, node),
          target.calls_library(planned.graph, node), target.shared_bytes(planned.graph, node)};
}

}  // namespace

PlannedGraph plan(Graph graph, const Target& target) {
  PlannedGraph planned{std::move(graph), {}, {}, {}, std::nullopt, target.replays()};
  planned.places = places(planned.graph, &target);
  for (const Node& node : planned.graph.nodes)
    planned.calls.push_back(calls_of(planned, node, target));
  planned.memory = plan_memory(planned.graph, planned.places, target);
  if (const BranchSlack slack = target.branch_slack(planned.graph); slack.any())
    planned.branches = schedule_branches(planned, slack.chains_kernels);
  return planned;
}

int64_t MemoryMoment::total() const {
  return std::accumulate(std::begin(bytes), std::end(bytes), int64_t{0});
}

std::vector<MemoryMoment> memory_timeline(const PlannedGraph& planned) {
  // First the changes at each node, then their running sums.
  std::vector<MemoryMoment> moments(planned.graph.nodes.size());
  for (const Buffer& buffer : planned.memory.buffers) {
    auto change = [&](NodeId at, int64_t bytes) {
      if (at < static_cast<NodeId>(moments.size()))
        moments[static_cast<size_t>(at)].bytes[static_cast<size_t>(buffer.memory_class)] += bytes;
    };
    change(buffer.first, buffer.bytes);
    change(buffer.last + 1, -buffer.bytes);
  }
  MemoryMoment live;
  std::copy_n(planned.memory.store_bytes, kMemoryClasses, live.bytes);
  for (MemoryMoment& moment : moments) {
    for (int i = 0; i < kMemoryClasses; ++i) live.bytes[i] += moment.bytes[i];
    moment = live;
  }
  return moments;
}

}  // namespace ridge::plan
