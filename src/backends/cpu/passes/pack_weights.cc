// SPDX-License-Identifier: Apache-2.0
// pack_weights: weights in blocks stay in their blocks and are repacked in panels of rows, as this
// backend's GEMMs read them. No other backend multiplies blocks.
#include <algorithm>

#include "backends/cpu/kernels/quantized/matmul.h"
#include "backends/cpu/passes/passes.h"
#include "base/row_panels.h"
#include "ops/registry.h"
#include "passes/store_weights.h"

namespace ridge::backends::cpu {
namespace {

// Exact GEMMs and views read blocks as the file has them. The answer is the same for every
// bucket of a model, since all of them share the store.
bool reads_panels(const Node& node) {
  if (is_a(node, ops::embedding_op())) return true;
  return is_a(node, ops::matmul_group_op()) && node.attrs.text("activations") != "f32";
}

Graph run(const Graph& graph, passes::PassContext& context) {
  Graph result = graph;
  if (!takes_panels()) return result;
  std::vector<std::vector<NodeId>> users = graph.users();
  bool any = false;
  for (size_t v = 0; v < result.values.size(); ++v) {
    Value& value = result.values[v];
    if (value.storage != Storage::kParameter || value.producer != kNoNode || users[v].empty())
      continue;
    DType packed = panel_dtype(value.type.dtype, value.type.shape);
    if (packed == value.type.dtype ||
        !std::all_of(users[v].begin(), users[v].end(),
                     [&](NodeId user) { return reads_panels(graph.node(user)); }))
      continue;
    if (!any) passes::keep_lookups(result);
    any = true;
    passes::store_as(packed, value, context);
  }
  return result;
}

}  // namespace

constinit const passes::Pass pack_weights_pass{
    "pack_weights",
    passes::Stage::kForward,
    passes::Serves::kInference,
    "repack quantized weights in the order in which GEMMs read them",
    "a lookup of one row reads a panel of 16 rows",
    run};

}  // namespace ridge::backends::cpu
