// SPDX-License-Identifier: Apache-2.0
// Adds casts to the load graph. Quantized blocks are unpacked once, at load time.
#include "passes/dtypes.h"

#include "base/fragment_tiles.h"
#include "ops/build.h"
#include "ops/registry.h"

namespace ridge::passes {

void store_as(DType dtype, Value& parameter, PassContext& context) {
  Builder load(context.load.graph, context.ops);
  load.set_phase(Phase::kLoad);
  ValueId& stored = context.load.stored.at(parameter.name);
  stored = ops::cast(load, stored, dtype);
  parameter.type.dtype = dtype;
}

void keep_lookups(Graph& graph) {
  for (Node& node : graph.nodes)
    if (is_a(node, ops::embedding_op()))
      node.attrs.set("dtype", std::string(name(graph.type(node.outputs[0]).dtype)));
}

Graph store_matrices_as(DType dtype, const Graph& graph, PassContext& context) {
  Graph result = graph;
  keep_lookups(result);
  for (Value& value : result.values) {
    // Views of a parameter have the same storage class, but a producer.
    bool is_matrix = value.storage == Storage::kParameter && value.producer == kNoNode &&
                     value.type.shape.rank() == 2 && !is_fragments(value.type.dtype);
    if (is_matrix && value.type.dtype != dtype) store_as(dtype, value, context);
  }
  return result;
}

}  // namespace ridge::passes
