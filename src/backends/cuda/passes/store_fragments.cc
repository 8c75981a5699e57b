// SPDX-License-Identifier: Apache-2.0
// store_fragments: quantized matrices stay quantized, in fragment tiles (base/fragment_tiles.h), if
// the target multiplies them with bf16 activations. store_bf16 unpacks what is left.
#include <algorithm>

#include "backends/cuda/passes/passes.h"
#include "base/fragment_tiles.h"
#include "ops/registry.h"
#include "passes/dtypes.h"
#include "passes/gemm_nodes.h"

namespace ridge::backends::cuda {
namespace {

// Whether the target supports the node with bf16 activations and the table or weight in tiles.
bool runs_with(const Graph& graph,
               NodeId id,
               ValueId parameter,
               DType tiles,
               const passes::PassContext& context) {
  Graph changed = graph;
  Node& node = changed.nodes[static_cast<size_t>(id)];
  changed.value(parameter).type.dtype = tiles;
  const bool is_lookup = is_a(node, ops::embedding_op());
  if (!is_lookup && !(passes::is_projection(graph, node) && node.inputs[1] == parameter))
    return false;
  if (!is_lookup) changed.value(node.inputs[0]).type.dtype = DType::kBF16;
  changed.value(node.outputs[0]).type.dtype = DType::kBF16;
  return context.target.unsupported(changed, node).empty();
}

}  // namespace

Graph run_store_fragments(const Graph& graph, passes::PassContext& context) {
  Graph result = graph;
  passes::keep_lookups(result);
  const std::vector<std::vector<NodeId>> users = graph.users();
  for (size_t v = 0; v < result.values.size(); ++v) {
    Value& value = result.values[v];
    if (value.storage != Storage::kParameter || value.producer != kNoNode || users[v].empty())
      continue;
    const DType tiles = fragment_dtype(value.type.dtype, value.type.shape);
    if (tiles != value.type.dtype && std::ranges::all_of(users[v], [&](NodeId user) {
          return runs_with(graph, user, static_cast<ValueId>(v), tiles, context);
        }))
      passes::store_as(tiles, value, context);
  }
  return result;
}

}  // namespace ridge::backends::cuda
