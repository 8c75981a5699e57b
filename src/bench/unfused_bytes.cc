// SPDX-License-Identifier: Apache-2.0
// Adds up the operands and results of the nodes.
#include "bench/unfused_bytes.h"

#include "ops/registry.h"

namespace ridge::bench {
namespace {

// How often softmax reads or writes its scores in three passes: the maximum reads them, the
// exponentials with their sum read and write, the division reads and writes.
constexpr int64_t kSoftmaxPasses = 5;
// Around it, one product writes them and the other reads them.
constexpr int64_t kAttentionPasses = kSoftmaxPasses + 2;

int64_t bytes_of(const Type& type) { return storage_bytes(type.dtype, type.shape.elements()); }

// The bytes of the scores of attention over flat tokens: q is [B T, H, E].
int64_t score_bytes(const Graph& graph, const Node& node) {
  const Type& q = graph.type(node.inputs[0]);
  return storage_bytes(q.dtype, q.shape[0] * q.shape[1] * node.attrs.integer("sequence"));
}

int64_t node_bytes(const Graph& graph, const Node& node) {
  if (is_a(node, ops::softmax_op())) return kSoftmaxPasses * bytes_of(graph.type(node.inputs[0]));
  int64_t bytes = 0;
  for (const ValueId value : node.inputs) bytes += bytes_of(graph.type(value));
  for (const ValueId value : node.outputs) bytes += bytes_of(graph.type(value));
  if (is_a(node, ops::attention_op())) bytes += kAttentionPasses * score_bytes(graph, node);
  return bytes;
}

}  // namespace

std::optional<int64_t> unfused_bytes(const Graph& graph) {
  for (const Value& value : graph.values)
    if (is_block(value.type.dtype)) return std::nullopt;
  int64_t bytes = 0;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::kView) continue;
    if (updates_store(graph, node)) return std::nullopt;
    bytes += node_bytes(graph, node);
  }
  return bytes;
}

}  // namespace ridge::bench
