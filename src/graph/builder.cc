// SPDX-License-Identifier: Apache-2.0
// Constructs nodes: checks attributes, applies the shape rule, sets the storage of outputs and the
// provenance.
#include "graph/builder.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::inline graph {
namespace {

std::string describe_inputs(const Graph& graph, const std::vector<ValueId>& inputs) {
  std::string text;
  for (ValueId input : inputs) text += (text.empty() ? "" : ", ") + graph.type(input).str();
  return text;
}

void check_input_count(const Op& op, size_t count) {
  bool few = count < static_cast<size_t>(op.operands.least);
  bool many = op.operands.most >= 0 && count > static_cast<size_t>(op.operands.most);
  if (!few && !many) return;
  std::string expected = op.operands.most < 0 ? fmt::format("at least {}", op.operands.least)
                         : op.operands.least == op.operands.most
                             ? fmt::format("{}", op.operands.least)
                             : fmt::format("{} to {}", op.operands.least, op.operands.most);
  throw usage_error("[{}] expected {} inputs, got {}", op.name, expected, count);
}

// Counts of work on 2^52 elements fit in 63 bits, and no machine has memory for as many.
constexpr int64_t kMostElements = int64_t{1} << 52;

void check_size(const Type& type, std::string_view what) {
  if (type.shape.elements() > kMostElements)
    throw memory_error("[graph] expected at most {} elements, {} is {}", kMostElements, what,
                       type.str());
}

void check_node_count(const Graph& graph, const std::string& scope) {
  if (static_cast<int64_t>(graph.nodes.size()) >= kMostNodes)
    throw memory_error("[graph] expected at most {} nodes, got more{}", kMostNodes,
                       scope.empty() ? "" : " at " + scope);
}

}  // namespace

Attrs complete_attrs(const Op& op, Attrs attrs) {
  for (const auto& [name, value] : attrs) {
    auto spec = std::find_if(op.attrs.begin(), op.attrs.end(),
                             [&key = name](const AttrSpec& each) { return each.name == key; });
    if (spec == op.attrs.end()) throw usage_error("[{}] unknown attribute '{}'", op.name, name);
    if (spec->value.index() != value.index())
      throw usage_error("[{}] attribute '{}' has the wrong type", op.name, name);
  }
  for (const AttrSpec& spec : op.attrs) {
    if (attrs.has(spec.name)) continue;
    if (spec.required) throw usage_error("[{}] attribute '{}' is missing", op.name, spec.name);
    attrs.set(spec.name, spec.value);
  }
  return attrs;
}

ModelWork model_work(const Op& op, const Call& call) {
  if (op.model_work != nullptr) return op.model_work(call);
  Work forward = op.work == nullptr ? Work{} : op.work(call);
  // The gradient of a matrix product is two products of its size; other ops have their own closed
  // form.
  Work backward = forward.macs > 0 ? products(2 * forward.macs) : Work{};
  return {forward, backward};
}

// Like Graph::find, but in constant time: a model of thousands of layers has tens of thousands of
// names.
ValueId Builder::find(const std::string& name) {
  for (; indexed_ < graph_.values.size(); ++indexed_) {
    const Value& value = graph_.values[indexed_];
    if (value.producer == kNoNode && !value.name.empty())
      named_.emplace(value.name, static_cast<ValueId>(indexed_));
  }
  auto found = named_.find(name);
  return found == named_.end() ? kNoValue : found->second;
}

ValueId Builder::named(std::string name, Type type, Storage storage) {
  ValueId existing = find(name);
  if (existing != kNoValue) {
    const Value& value = graph_.value(existing);
    RIDGE_CHECK(value.type == type && value.storage == storage,
                "'{}' is declared twice, as {} and {}", name, value.type.str(), type.str());
    return existing;
  }
  check_size(type, name);
  graph_.values.push_back({std::move(type), storage, std::move(name), kNoNode});
  return static_cast<ValueId>(graph_.values.size() - 1);
}

ValueId Builder::parameter(std::string name, Type type) {
  return named(std::move(name), std::move(type), Storage::kParameter);
}
ValueId Builder::input(std::string name, Type type) {
  return named(std::move(name), std::move(type), Storage::kInput);
}
ValueId Builder::state(std::string name, Type type) {
  return named(std::move(name), std::move(type), Storage::kState);
}

ValueId Builder::call(std::string_view op, std::vector<ValueId> inputs, Attrs attrs) {
  std::vector<ValueId> outputs = call_all(op, std::move(inputs), std::move(attrs));
  RIDGE_CHECK(outputs.size() == 1, "op '{}' has {} outputs, one was asked for", op, outputs.size());
  return outputs[0];
}

std::vector<ValueId> Builder::call_all(std::string_view op_name,
                                       std::vector<ValueId> inputs,
                                       Attrs attrs) {
  const Op& op = ops_.at(op_name);
  check_node_count(graph_, scope_);
  check_input_count(op, inputs.size());
  Node node{&op, std::move(inputs), {}, complete_attrs(op, std::move(attrs)), scope_, phase_, {}};
  CallTypes types(graph_, node);
  try {
    types.outputs = op.infer(types.call());
  } catch (const Error& error) {
    throw Error(fmt::format("{} (inputs {}{})", error.what(), describe_inputs(graph_, node.inputs),
                            scope_.empty() ? "" : " in " + scope_),
                error.code());
  }
  for (const Type& type : types.outputs) check_size(type, op.name);
  for (const Type& type : types.outputs) {
    // A view of stored bytes is stored too, because an update through the view must count as an
    // update.
    Storage storage =
        op.kind == OpKind::kView ? graph_.value(node.inputs[0]).storage : Storage::kTemporary;
    graph_.values.push_back({type, storage, "", static_cast<NodeId>(graph_.nodes.size())});
    node.outputs.push_back(static_cast<ValueId>(graph_.values.size() - 1));
  }
  for (const Alias& alias :
       op.aliases == nullptr ? std::vector<Alias>{} : op.aliases(types.call())) {
    Storage storage = graph_.value(node.inputs[static_cast<size_t>(alias.input)]).storage;
    graph_.value(node.outputs[static_cast<size_t>(alias.output)]).storage = storage;
  }
  if (derived_) {
    node.from = from_;
  } else if (op.kind != OpKind::kView) {  // a view does no work: nothing to account for
    int32_t id = static_cast<int32_t>(graph_.origins.size());
    graph_.origins.push_back({op.name, scope_, phase_, model_work(op, types.call())});
    node.from = {{id, phase_}};
  }
  graph_.nodes.push_back(std::move(node));
  return graph_.nodes.back().outputs;
}

Builder::Scope::Scope(Builder& builder, std::string_view name)
    : builder_(builder), previous_(builder.scope_) {
  builder.scope_ = previous_.empty() ? std::string(name) : previous_ + "/" + std::string(name);
}

Builder::Derive::Derive(Builder& builder, std::vector<Origin> from, std::string scope, Phase phase)
    : builder_(builder),
      from_(std::move(builder.from_)),
      scope_(std::move(builder.scope_)),
      phase_(builder.phase_),
      derived_(builder.derived_) {
  builder.from_ = std::move(from);
  builder.scope_ = std::move(scope);
  builder.phase_ = phase;
  builder.derived_ = true;
}

Builder::Derive::~Derive() {
  builder_.from_ = std::move(from_);
  builder_.scope_ = std::move(scope_);
  builder_.phase_ = phase_;
  builder_.derived_ = derived_;
}

}  // namespace ridge::inline graph
