// SPDX-License-Identifier: Apache-2.0
// store_bf16 and store_f32: store all matrices of a model in one plain type, whatever type the file
// has. Quantized blocks are unpacked once, at load time.
#include "passes/store_weights.h"

#include "ops/build.h"
#include "ops/registry.h"
#include "passes/passes.h"

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

namespace {

Graph run(const Graph& graph, PassContext& context, DType dtype) {
  Graph result = graph;
  keep_lookups(result);
  for (Value& value : result.values) {
    // Views of a parameter have the same storage class, but a producer.
    bool is_matrix = value.storage == Storage::kParameter && value.producer == kNoNode &&
                     value.type.shape.rank() == 2;
    if (is_matrix && value.type.dtype != dtype) store_as(dtype, value, context);
  }
  return result;
}

}  // namespace

Graph run_store_bf16(const Graph& graph, PassContext& context) {
  return run(graph, context, DType::kBF16);
}

Graph run_store_f32(const Graph& graph, PassContext& context) {
  return run(graph, context, DType::kF32);
}

}  // namespace ridge::passes
