// SPDX-License-Identifier: Apache-2.0
// Implements graph queries and the small types of graph/op.h.
#include "graph/graph.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>

#include "base/error.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "base/shape.h"

namespace ridge::inline graph {

std::string_view name(Storage storage) {
  constexpr std::string_view kNames[] = {"parameter", "input", "state", "temporary"};
  return kNames[static_cast<size_t>(storage)];
}

std::string_view name(Phase phase) {
  constexpr std::string_view kNames[] = {"load", "forward", "backward", "optimizer"};
  return kNames[static_cast<size_t>(phase)];
}

std::string_view name(OpCategory category) {
  constexpr std::string_view kNames[] = {"other",         "matmul",
                                         "attention",     "softmax and loss",
                                         "embedding",     "elementwise and norms",
                                         "data movement", "views",
                                         "optimizer",     "sampling",
                                         "collectives"};
  return kNames[static_cast<size_t>(category)];
}

std::string Type::str() const { return fmt::format("{}{}", ridge::name(dtype), shape.str()); }

Work& Work::operator+=(const Work& other) {
  macs = checked_sum(macs, other.macs, "MACs");
  flops = checked_sum(flops, other.flops, "FLOPs");
  transcendentals = checked_sum(transcendentals, other.transcendentals, "transcendentals");
  return *this;
}

Work times(int64_t n, const Work& work) {
  return {checked_product(n, work.macs, "MACs"), checked_product(n, work.flops, "FLOPs"),
          checked_product(n, work.transcendentals, "transcendentals")};
}

bool is_dense(const Shape& shape, const Layout& layout) {
  int64_t step = 1;
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] != 1 && layout.strides[axis] != step) return false;
    step *= std::max<int64_t>(shape[axis], 1);  // as in dense_strides
  }
  return true;
}

OpTable::OpTable(std::vector<const Op*> ops) : ops_(std::move(ops)) {
  for (size_t i = 0; i < ops_.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      RIDGE_CHECK(ops_[i]->name != ops_[j]->name, "op '{}' is listed twice", ops_[i]->name);
}

// Graphs and records that users saved may name an op as older versions did.
constexpr std::pair<std::string_view, std::string_view> kFormerNames[] = {
    {"matmul_group", "quantized_matmul"},
    {"row_product", "skinny_gemm"},
};

const Op* OpTable::find(std::string_view name) const {
  for (const auto& [former, now] : kFormerNames)
    if (name == former) name = now;
  for (const Op* op : ops_)
    if (op->name == name) return op;
  return nullptr;
}

const Op& OpTable::at(std::string_view name) const {
  const Op* op = find(name);
  if (op == nullptr) {
    std::vector<std::string> known;
    for (const Op* each : ops_) known.push_back(each->name);
    throw usage_error("[op] unknown op {}{}; expected one of {}", printable(name),
                      did_you_mean(name, known), fmt::join(known, ", "));
  }
  return *op;
}

const Node* Graph::producer(ValueId id) const {
  NodeId producer = value(id).producer;
  return producer == kNoNode ? nullptr : &node(producer);
}

ValueId Graph::find(std::string_view name) const {
  for (size_t i = 0; i < values.size(); ++i)
    if (values[i].name == name && values[i].producer == kNoNode) return static_cast<ValueId>(i);
  return kNoValue;
}

const Node* first_of(const Graph& graph, const Op& op) {
  const auto found =
      std::ranges::find_if(graph.nodes, [&](const Node& node) { return is_a(node, op); });
  return found == graph.nodes.end() ? nullptr : &*found;
}

std::vector<std::vector<NodeId>> Graph::users() const {
  std::vector<std::vector<NodeId>> users(values.size());
  for (size_t i = 0; i < nodes.size(); ++i)
    for (ValueId input : nodes[i].inputs) {
      auto& list = users[static_cast<size_t>(input)];
      if (list.empty() || list.back() != static_cast<NodeId>(i))
        list.push_back(static_cast<NodeId>(i));
    }
  return users;
}

CallTypes::CallTypes(const Graph& graph, const Node& node) : attrs(&node.attrs) {
  inputs.reserve(node.inputs.size());
  outputs.reserve(node.outputs.size());
  for (ValueId value : node.inputs) inputs.push_back(graph.type(value));
  for (ValueId value : node.outputs) outputs.push_back(graph.type(value));
}

std::vector<Alias> aliases(const Graph& graph, const Node& node) {
  if (node.op->aliases == nullptr) return {};
  return node.op->aliases(CallTypes(graph, node).call());
}

bool updates_store(const Graph& graph, const Node& node) {
  for (const Alias& alias : aliases(graph, node)) {
    Storage storage = graph.value(node.outputs[static_cast<size_t>(alias.output)]).storage;
    if (storage == Storage::kParameter || storage == Storage::kState) return true;
  }
  return false;
}

std::vector<Origin> merge_origins(std::span<const Origin> a, std::span<const Origin> b) {
  std::vector<Origin> merged;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(merged));
  return merged;
}

std::vector<Origin> distinct_origins(const Graph& graph) {
  std::vector<Origin> all;
  for (const Node& node : graph.nodes) all.insert(all.end(), node.from.begin(), node.from.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

}  // namespace ridge::inline graph
