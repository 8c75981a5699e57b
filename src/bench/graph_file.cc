// SPDX-License-Identifier: Apache-2.0
// Parses and verifies the file, and finds out how its operands are filled.
#include "bench/graph_file.h"

#include <fmt/format.h>

#include "base/error.h"
#include "files/mapped_file.h"
#include "graph/builder.h"
#include "graph/text_form.h"
#include "graph/verifier.h"
#include "ops/registry.h"

namespace ridge::bench {
namespace {

constexpr size_t kLargestFile = 16 << 20;

// Ids are below the extent that they index; all other integers are 0.
Fill fill_of_integers(const Graph& graph, ValueId value) {
  for (const Node& node : graph.nodes)
    for (size_t i = 0; i < node.inputs.size(); ++i) {
      if (node.inputs[i] != value) continue;
      if (is_a(node, ops::embedding_op()) && i == 1)
        return {Fill::kIds, static_cast<double>(graph.shape(node.inputs[0])[0]), false};
      if ((is_a(node, ops::softmax_cross_entropy_op()) || is_a(node, ops::nll_loss_op())) && i == 1)
        return {Fill::kIds, static_cast<double>(graph.shape(node.inputs[0]).back()), false};
      if (is_a(node, ops::embedding_backward_op()) && i == 0)
        return {Fill::kIds, static_cast<double>(node.attrs.integer("vocabulary")), false};
    }
  return {Fill::kConstant, 0, false};
}

// Each node of a person's graph is work of its own.
void add_origins(Graph& graph) {
  for (Node& node : graph.nodes) {
    if (!node.from.empty() || node.op->kind == OpKind::kView) continue;
    node.from = {{static_cast<int32_t>(graph.origins.size()), node.phase}};
    graph.origins.push_back({node.op->name, node.scope, node.phase,
                             model_work(*node.op, CallTypes(graph, node).call())});
  }
}

}  // namespace

TrialGraph read_graph(const std::string& path) {
  TrialGraph trial;
  const std::string text = files::read_small_file(path, kLargestFile);
  try {
    trial.graph = parse_graph(text, ops::table());
    add_origins(trial.graph);
    verify(trial.graph);
  } catch (const Error& error) {
    throw Error(fmt::format("[{}] {}", path, error.what()),
                error.code() == ExitCode::kOutOfMemory ? error.code() : ExitCode::kBadFile);
  } catch (const InternalError& error) {
    // The verifier takes an illegal graph for a fault of a pass; here it is the file's.
    throw file_error("[{}] the graph is not legal: {}", path, error.what());
  }
  if (trial.graph.nodes.empty()) throw file_error("[{}] the graph has no node", path);
  for (size_t i = 0; i < trial.graph.values.size(); ++i) {
    const Value& value = trial.graph.values[i];
    if (value.producer == kNoNode && !is_float(value.type.dtype) && !is_block(value.type.dtype))
      trial.fills[value.name] = fill_of_integers(trial.graph, static_cast<ValueId>(i));
  }
  return trial;
}

}  // namespace ridge::bench
