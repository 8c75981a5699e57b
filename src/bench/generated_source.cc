// SPDX-License-Identifier: Apache-2.0
// Finds the generated nodes and writes their kernels.
#include "bench/generated_source.h"

#include <fmt/format.h>

#include <vector>

#include "backends/bind/pointwise_program.h"
#include "backends/cuda/pointwise_source.h"
#include "base/shape.h"
#include "base/units.h"
#include "ops/registry.h"

namespace ridge::bench {
namespace {

// The alignment of what an arena places.
constexpr int64_t kArenaAlignment = 256;

std::vector<backends::cuda::PointwiseAccess> dense(const Graph& graph,
                                                   const std::vector<ValueId>& values) {
  std::vector<backends::cuda::PointwiseAccess> accesses;
  for (const ValueId value : values) {
    const Type& type = graph.type(value);
    accesses.push_back({type.dtype, dense_strides(type.shape), kArenaAlignment});
  }
  return accesses;
}

// With the launch that it is made for.
std::string source_of(const Graph& graph, const Node& node) {
  const Graph& cluster = node.attrs.nested("program");
  const backends::cuda::GeneratedKernel kernel = backends::cuda::generate(
      backends::pointwise_program(cluster, node.inputs.size()), cluster.shape(cluster.outputs[0]),
      dense(graph, node.inputs), dense(graph, node.outputs));
  return fmt::format(
      "// {}: {} operations, a thread for each of {} vectors of elements\n"
      "// launched with {} of {} threads, rounded up\n{}\n",
      graph.type(node.outputs[0]).str(), cluster.nodes.size(), kernel.vectors,
      counted(ceil_div(kernel.vectors, backends::cuda::kGeneratedThreads), "block"),
      backends::cuda::kGeneratedThreads, kernel.source.substr(kernel.source.find("extern")));
}

}  // namespace

std::string generated_source(const TrialGraph& trial,
                             const TrialSetting& setting,
                             const passes::PassTarget& target) {
  const Graph graph = prepare(trial, setting, target).graph;
  std::string text;
  for (const Node& node : graph.nodes)
    if (is_a(node, ops::generated_pointwise_op())) text += source_of(graph, node);
  if (text.empty())
    return fmt::format("No kernel is generated at level {}.\n", setting.selection.level());
  return text;
}

}  // namespace ridge::bench
