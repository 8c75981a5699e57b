// SPDX-License-Identifier: Apache-2.0
// store_bf16 and store_f32: the matrices of a model lie in one plain type, whatever their file has;
// blocks are unpacked once, when they are loaded. pack_weights: they stay in their blocks, in the
// order that the target's products read best.
#include <algorithm>

#include "base/error.h"
#include "graph/rewriter.h"
#include "ops/build.h"
#include "passes/passes.h"

namespace ridge::passes {
namespace {

void store_as(DType dtype, Value& parameter, PassContext& context) {
  Builder load(context.load.graph, context.ops);
  load.set_phase(Phase::kLoad);
  ValueId& stored = context.load.stored.at(parameter.name);
  stored = ops::cast(load, stored, dtype);
  parameter.type.dtype = dtype;
}

// A lookup gives its table's type unless it says another: what it gave stays.
void keep_lookups(Graph& graph) {
  for (Node& node : graph.nodes)
    if (node.op->name == "embedding")
      node.attrs.set("dtype", std::string(name(graph.type(node.outputs[0]).dtype)));
}

Graph run(const Graph& graph, PassContext& context, DType dtype) {
  Graph result = graph;
  keep_lookups(result);
  for (Value& value : result.values) {
    bool is_matrix = value.storage == Storage::kParameter && value.type.shape.rank() == 2;
    if (is_matrix && value.type.dtype != dtype) store_as(dtype, value, context);
  }
  return result;
}

Graph run_bf16(const Graph& graph, PassContext& context) {
  return run(graph, context, DType::kBF16);
}
Graph run_f32(const Graph& graph, PassContext& context) { return run(graph, context, DType::kF32); }

// Exact products and views read blocks as the file has them. The answer is the same for every
// bucket of a model, since all of them share the store.
bool reads_packed(const Node& node) {
  if (node.op->name == "embedding") return true;
  return node.op->name == "matmul_group" && node.attrs.text("activations") != "f32";
}

Graph pack(const Graph& graph, PassContext& context) {
  Graph result = graph;
  std::vector<std::vector<NodeId>> users = graph.users();
  bool any = false;
  for (size_t v = 0; v < result.values.size(); ++v) {
    Value& value = result.values[v];
    if (value.storage != Storage::kParameter || value.producer != kNoNode || users[v].empty())
      continue;
    DType packed = context.target.packed_weight(value.type.dtype, value.type.shape);
    if (packed == value.type.dtype ||
        !std::all_of(users[v].begin(), users[v].end(),
                     [&](NodeId user) { return reads_packed(graph.node(user)); }))
      continue;
    if (!any) keep_lookups(result);
    any = true;
    store_as(packed, value, context);
  }
  return result;
}

}  // namespace

const Pass& store_bf16_pass() {
  static const Pass pass{
      "store_bf16", Stage::kForward, "keep matrices in bf16, unpacked when loaded",
      "memory and bytes against quantized blocks, precision against fp32", run_bf16};
  return pass;
}

const Pass& store_f32_pass() {
  static const Pass pass{"store_f32", Stage::kForward,
                         "keep matrices in fp32, unpacked when loaded",
                         "memory and bytes: what a file stores in less is unpacked", run_f32};
  return pass;
}

const Pass& pack_weights_pass() {
  static const Pass pass{
      "pack_weights", Stage::kForward, "weights in blocks lie as the target's products read them",
      "a row that is looked up lies among others: its bytes count 16 times", pack};
  return pass;
}

}  // namespace ridge::passes
