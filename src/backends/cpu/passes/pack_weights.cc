// SPDX-License-Identifier: Apache-2.0
// pack_weights: repacks quantized weights into repacked tiles, in the order in which this
// backend's GEMMs read them. The weights stay quantized. No other backend multiplies quantized
// blocks.
#include <algorithm>

#include "backends/cpu/isa.h"
#include "backends/cpu/passes/passes.h"
#include "base/repacked_tiles.h"
#include "ops/registry.h"
#include "passes/dtypes.h"

namespace ridge::backends::cpu {
namespace {

// Exact GEMMs and views read blocks in the file's order. The result is the same for every bucket
// of a model, since all buckets share the store.
bool reads_repacked(const Node& node) {
  if (is_a(node, ops::embedding_op())) return true;
  return is_a(node, ops::quantized_matmul_op()) && node.attrs.text("activations") != "f32";
}

}  // namespace

Graph run_pack_weights(const Graph& graph, passes::PassContext& context) {
  Graph result = graph;
  if (!takes_repacked(quantized_isa())) return result;
  std::vector<std::vector<NodeId>> users = graph.users();
  bool any = false;
  for (size_t v = 0; v < result.values.size(); ++v) {
    Value& value = result.values[v];
    if (value.storage != Storage::kParameter || value.producer != kNoNode || users[v].empty())
      continue;
    DType packed = repacked_dtype(value.type.dtype, value.type.shape);
    if (packed == value.type.dtype ||
        !std::all_of(users[v].begin(), users[v].end(),
                     [&](NodeId user) { return reads_repacked(graph.node(user)); }))
      continue;
    if (!any) passes::keep_lookups(result);
    any = true;
    passes::store_as(packed, value, context);
  }
  return result;
}

}  // namespace ridge::backends::cpu
