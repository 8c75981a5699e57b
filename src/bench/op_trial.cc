// SPDX-License-Identifier: Apache-2.0
// Builds one-node graphs; graph_trial.h fills and times them.
#include "bench/op_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/dtype.h"
#include "base/error.h"
#include "base/units.h"
#include "graph/builder.h"
#include "graph/text_form.h"
#include "models/config.h"
#include "ops/registry.h"
#include "passes/pipeline.h"
#include "train/step.h"

namespace ridge::bench {
namespace {

constexpr size_t kMostPresetCases = 8;
constexpr int64_t kMostOperandBytes = int64_t{2} << 30;

// The fill of the first of the op's own cases with this dtype at this input. Positive numbers suit
// every op without such a case.
Fill fill_for(const std::vector<Case>& cases, size_t input, DType dtype, int64_t vocabulary) {
  for (const Case& each : cases) {
    if (each.inputs.size() <= input || each.inputs[input].type.dtype != dtype) continue;
    Fill fill = each.inputs[input].fill;
    if (fill.kind == Fill::kIds) fill.parameter = static_cast<double>(vocabulary);
    return fill;
  }
  if (dtype == DType::kI32) return {Fill::kIds, static_cast<double>(vocabulary), false};
  return {Fill::kPositive};
}

// The call as a graph. Inputs that the op updates become states.
Graph one_node(const Op& op, const Case& each) {
  Graph graph;
  Builder b(graph, ops::table());
  std::vector<Type> inputs;
  for (const CaseInput& input : each.inputs) inputs.push_back(input.type);
  Attrs attrs = complete_attrs(op, each.attrs);
  Call call{inputs, {}, attrs};
  std::vector<Type> outputs = op.infer(call);
  call.outputs = outputs;
  std::set<int> updated;
  if (op.aliases != nullptr)
    for (const Alias& alias : op.aliases(call)) updated.insert(alias.input);
  std::vector<ValueId> values;
  for (size_t i = 0; i < inputs.size(); ++i) {
    std::string name = fmt::format("input.{}", i);
    values.push_back(updated.contains(static_cast<int>(i)) ? b.state(name, inputs[i])
                                                           : b.input(name, inputs[i]));
  }
  graph.outputs = b.call_all(op.name, values, each.attrs);
  return graph;
}

// The distinct calls of an op in training steps.
struct OpCalls {
  const Op& op;
  std::set<std::string> seen = {};
  std::vector<Case> found = {};

  // Adds those of a graph, for a model of this vocabulary.
  void add(const Graph& graph, const models::ModelConfig& config) {
    const std::vector<Case> cases = op.cases == nullptr ? std::vector<Case>() : op.cases();
    for (const Node& node : graph.nodes) {
      if (node.op != &op) continue;
      Case made{config.name, {}, node.attrs};
      std::string key;
      for (ValueId input : node.inputs) {
        Type type = graph.type(input);
        made.inputs.push_back(
            {type, fill_for(cases, made.inputs.size(), type.dtype, config.vocabulary)});
        key += type.str() + ",";
      }
      Graph alone = one_node(op, made);
      PrintOptions plain{.origins = false, .scopes = false};
      if (seen.insert(key + print(alone, plain)).second) found.push_back(std::move(made));
    }
  }
};

}  // namespace

std::vector<Case> preset_cases(const Op& op, DType dtype, const passes::PassTarget& target) {
  OpCalls calls{op};
  const char* switches = dtype == DType::kBF16 ? "+autocast_bf16" : "";
  for (const char* name : {"tiny", "small"})
    for (const passes::Level* level : {&passes::levels().front(), &passes::levels().back()}) {
      const models::Preset& preset = models::preset(name);
      train::StepSetup setup{preset.config, {}, passes::Selection(level->name, switches)};
      setup.step.batch_size = preset.batch_size;
      setup.step.sequence = preset.sequence;
      const train::TrainingStep step = train::build_step(setup, target);
      for (const train::StepGraph& each : step.graphs) calls.add(each.graph, preset.config);
    }
  std::vector<Case>& found = calls.found;
  auto size = [](const Case& each) {
    int64_t elements = 0;
    for (const CaseInput& input : each.inputs) elements += input.type.shape.elements();
    return elements;
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Case& a, const Case& b) { return size(a) > size(b); });
  if (found.size() > kMostPresetCases) found.resize(kMostPresetCases);
  return std::move(found);
}

std::vector<Case> quantized_cases(const Op& op) {
  if (op.name != "quantized_matmul") return {};
  std::vector<Case> cases;
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0, DType::kQ4_K,
                      DType::kQ6_K, DType::kQ4_G128, DType::kBF16})
    for (int64_t tokens : {1, 512})
      for (const char* activations : {"f32", "i16"}) {
        if (!is_block(dtype) && std::string_view(activations) == "i16") continue;
        CaseInput x{{DType::kF32, {tokens, 1024}}, {}, false};
        CaseInput weight{{dtype, {8192, 1024}}, {Fill::kNormal, 0.03, false}, false};
        cases.push_back({fmt::format("{} {} tokens {}", name(dtype), tokens, activations),
                         {x, weight, weight},
                         {{"activations", std::string(activations)}}});
      }
  return cases;
}

Case cast_case(const Case& each, DType dtype) {
  Case cast = each;
  for (CaseInput& input : cast.inputs)
    if (input.castable && input.type.dtype == DType::kF32) input.type.dtype = dtype;
  return cast;
}

record::BenchPoint run_trial(const Op& op,
                             const Case& each,
                             backends::Backend& backend,
                             const cost::Ceilings& ceilings) {
  record::BenchPoint point;
  try {
    TrialGraph trial{one_node(op, each)};
    int64_t bytes = 0;
    for (size_t i = 0; i < each.inputs.size(); ++i) {
      const CaseInput& input = each.inputs[i];
      trial.fills[fmt::format("input.{}", i)] = input.fill;
      bytes += storage_bytes(input.type.dtype, input.type.shape.elements());
    }
    if (bytes > kMostOperandBytes) {
      point.inputs = operand_types(trial.graph);
      point.refused = fmt::format("its operands take {}", format_bytes(bytes));
    } else {
      point = run_trial(trial, {}, backend, &ceilings);
    }
  } catch (const Error& error) {
    point.refused = error.what();
  }
  point.name = each.name;
  return point;
}

}  // namespace ridge::bench
