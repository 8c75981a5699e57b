// SPDX-License-Identifier: Apache-2.0
// Parses and verifies the file, and finds out how its operands are filled.
#include "bench/graph_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/error.h"
#include "files/mapped_file.h"
#include "graph/builder.h"
#include "graph/rewriter.h"
#include "graph/text_form.h"
#include "graph/verifier.h"
#include "ops/registry.h"

namespace ridge::bench {
namespace {

constexpr size_t kLargestFile = 16 << 20;

// The ids that a node indexes an extent with: the operand, and the extent.
std::optional<std::pair<ValueId, int64_t>> ids_of(const Graph& graph, const Node& node) {
  if (is_a(node, ops::embedding_op())) return {{node.inputs[1], graph.shape(node.inputs[0])[0]}};
  if (is_a(node, ops::softmax_cross_entropy_op()) || is_a(node, ops::nll_loss_op()))
    return {{node.inputs[1], graph.shape(node.inputs[0]).back()}};
  if (is_a(node, ops::embedding_backward_op()))
    return {{node.inputs[0], node.attrs.integer("vocabulary")}};
  return std::nullopt;
}

// Ids are below the smallest extent that they index; all other integers are 0.
void fill_integers(TrialGraph& trial) {
  std::map<ValueId, int64_t> extents;
  for (const Node& node : trial.graph.nodes)
    if (const auto ids = ids_of(trial.graph, node)) {
      int64_t& extent = extents.try_emplace(ids->first, ids->second).first->second;
      extent = std::min(extent, ids->second);
    }
  for (size_t i = 0; i < trial.graph.values.size(); ++i) {
    const Value& value = trial.graph.values[i];
    if (value.producer != kNoNode || is_float(value.type.dtype) || is_block(value.type.dtype))
      continue;
    const auto found = extents.find(static_cast<ValueId>(i));
    trial.fills[value.name] = found == extents.end()
                                  ? Fill{Fill::kConstant, 0, false}
                                  : Fill{Fill::kIds, static_cast<double>(found->second), false};
  }
}

// Results that nothing reads are returned too: else the passes would remove their nodes, which are
// work to be counted and run.
void return_unread(Graph& graph) {
  std::vector<bool> is_read(graph.values.size(), false);
  for (const Node& node : graph.nodes)
    for (ValueId input : node.inputs) is_read[static_cast<size_t>(input)] = true;
  for (ValueId output : graph.outputs) is_read[static_cast<size_t>(output)] = true;
  for (const Node& node : graph.nodes)
    if (std::ranges::none_of(node.outputs,
                             [&](ValueId v) { return is_read[static_cast<size_t>(v)]; }))
      graph.outputs.insert(graph.outputs.end(), node.outputs.begin(), node.outputs.end());
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

TrialGraph trial_of(Graph graph) {
  TrialGraph trial{std::move(graph)};
  add_origins(trial.graph);
  return_unread(trial.graph);
  try {
    verify(trial.graph);
  } catch (const InternalError& error) {
    // The verifier takes an illegal graph for a fault of a pass; here it is its author's.
    throw usage_error("the graph is not legal: {}", error.what());
  }
  if (trial.graph.nodes.empty()) throw usage_error("the graph has no node");
  fill_integers(trial);
  return trial;
}

TrialGraph trial_of_outputs(Graph graph) {
  if (graph.outputs.empty()) return trial_of(std::move(graph));
  Graph needed = without_dead_nodes(graph);
  const std::vector<ValueId> outputs = needed.outputs;
  TrialGraph trial = trial_of(std::move(needed));
  trial.graph.outputs = outputs;
  return trial;
}

TrialGraph read_graph(const std::string& path) {
  const std::string text = files::read_small_file(path, kLargestFile);
  try {
    return trial_of(parse_graph(text, ops::table()));
  } catch (const Error& error) {
    throw Error(fmt::format("[{}] {}", path, error.what()),
                error.code() == ExitCode::kOutOfMemory ? error.code() : ExitCode::kBadFile);
  }
}

}  // namespace ridge::bench
