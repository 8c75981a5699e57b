// SPDX-License-Identifier: Apache-2.0
// Reads values back and sorts them into classes.
#include "train/numerics.h"

#include <array>
#include <cctype>

#include "base/block_formats.h"
#include "base/error.h"
#include "ops/adamw.h"
#include "ops/pointwise.h"
#include "ops/registry.h"
#include "train/optimizer.h"

namespace ridge::train {
namespace {

enum NumberClass { kWeights, kGradients, kFirstMoments, kSecondMoments, kActivations, kBackward };
constexpr std::array<const char*, 6> kClasses = {"weights",       "gradients",
                                                 "first moments", "second moments",
                                                 "activations",   "activation gradients"};

bool is_measured(DType type) {
  return type == DType::kF32 || type == DType::kBF16 || type == DType::kF16;
}

bool updates(const Node& node) {
  return is_a(node, ops::adamw_op()) || is_a(node, ops::adamw_multi_op());
}

// The part of a model to which a parameter belongs.
std::string part_of(std::string_view parameter) {
  for (const auto& [piece, part] : {std::pair{".lora_", "adapters"},
                                    {"embed_tokens", "embedding"},
                                    {"lm_head", "head"},
                                    {"norm", "norms"},
                                    {"self_attn", "attention"},
                                    {"mlp", "mlp"}})
    if (parameter.find(piece) != std::string_view::npos) return part;
  return "other";
}

// "layer.3/attention" is one of all layers: "attention".
std::string part_of_scope(const std::string& scope) {
  if (scope.starts_with("layer.")) {
    const size_t end = scope.find('/');
    return end == std::string::npos ? "between" : part_of_scope(scope.substr(end + 1));
  }
  return scope.empty() ? "other" : scope.substr(0, scope.find('/'));
}

std::vector<float> floats_in(const runtime::Store& store, const std::string& name) {
  const Type& type = store.type(name);
  const int64_t elements = type.shape.elements();
  std::vector<std::byte> bytes(static_cast<size_t>(storage_bytes(type.dtype, elements)));
  store.read(name, bytes.data(), std::ssize(bytes));
  std::vector<float> values(static_cast<size_t>(elements));
  dequantize(type.dtype, bytes, values);
  return values;
}

}  // namespace

void Numerics::add(int kind, const std::string& scope, DType type, std::span<const float> values) {
  record::NumericsRow& row = rows_[{kind, scope, type}];
  row.kind = kClasses[static_cast<size_t>(kind)];
  row.scope = scope;
  row.dtype = name(type);
  ++row.tensors;
  row.range.add(values, type);
}

// A gradient is one in each type to which it is cast, and so is the part of it to which the rest is
// added in place.
const std::set<ValueId>& Numerics::gradients_in(const runtime::Program& program, int index) {
  const auto [found, is_new] = gradients_.try_emplace(index);
  if (!is_new) return found->second;
  const Graph& graph = program.graph(index).graph();
  std::set<ValueId>& all = found->second;
  for (const Node& node : graph.nodes) {
    if (is_a(node, ops::accumulate_op())) all.insert(node.inputs[1]);
    if (!updates(node)) continue;
    for (const ops::AdamwTensor& t : ops::adamw_tensors(node.inputs.size(), node.attrs))
      all.insert(node.inputs[static_cast<size_t>(t.input) + 1]);
  }
  const auto is_cast = [](const Node& node) {
    return is_a(node, ops::pointwise_op(Pointwise::kCast));
  };
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    if (node->outputs.empty() || !all.contains(node->outputs[0])) continue;
    if (is_cast(*node)) all.insert(node->inputs[0]);
    if (node->op->aliases == nullptr) continue;
    for (const Alias& alias : node->op->aliases(CallTypes(graph, *node).call()))
      all.insert(node->inputs[static_cast<size_t>(alias.input)]);
  }
  for (const Node& node : graph.nodes)
    if (is_cast(node) && all.contains(node.inputs[0])) all.insert(node.outputs[0]);
  return all;
}

void Numerics::before(const runtime::Program& program, int index, NodeId id) {
  const Graph& graph = program.graph(index).graph();
  const Node& node = graph.node(id);
  if (!updates(node)) return;
  for (const ops::AdamwTensor& t : ops::adamw_tensors(node.inputs.size(), node.attrs)) {
    const ValueId parameter = node.inputs[static_cast<size_t>(t.input)];
    const ValueId gradient = node.inputs[static_cast<size_t>(t.input) + 1];
    add(kGradients, part_of(graph.value(parameter).name), graph.type(gradient).dtype,
        program.read(index, gradient));
  }
}

void Numerics::after(const runtime::Program& program, int index, NodeId id) {
  const Graph& graph = program.graph(index).graph();
  const Node& node = graph.node(id);
  if (node.phase != Phase::kForward && node.phase != Phase::kBackward) return;
  for (const ValueId output : node.outputs) {
    const Value& value = graph.value(output);
    if (!is_measured(value.type.dtype) || value.storage != Storage::kTemporary) continue;
    if (gradients_in(program, index).contains(output)) continue;
    add(node.phase == Phase::kForward ? kActivations : kBackward, part_of_scope(node.scope),
        value.type.dtype, program.read(index, output));
  }
}

void Numerics::add_stored(const runtime::Store& store, const std::string& name) {
  const bool is_first = name.ends_with(kFirstMoment), is_second = name.ends_with(kSecondMoment);
  const bool is_weight = name.ends_with(".weight") || name.ends_with(".bias") ||
                         name.ends_with(".bf16") || name.ends_with(".f16");
  if (!(is_first || is_second || is_weight) || !is_measured(store.type(name).dtype)) return;
  add(is_first    ? kFirstMoments
      : is_second ? kSecondMoments
                  : kWeights,
      part_of(name), store.type(name).dtype, floats_in(store, name));
}

record::NumericsRecord Numerics::finish(const runtime::Store& store,
                                        int64_t step,
                                        double loss_scale) {
  for (const std::string& name : store.names()) add_stored(store, name);
  record::NumericsRecord record{step, loss_scale, {}};
  for (auto& [key, row] : rows_) record.rows.push_back(std::move(row));
  return record;
}

}  // namespace ridge::train
