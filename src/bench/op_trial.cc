// SPDX-License-Identifier: Apache-2.0
// Builds, fills and times one-node graphs. Not a subcommand.
#include "bench/op_trial.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "base/bf16.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"
#include "base/units.h"
#include "files/quantize.h"
#include "graph/builder.h"
#include "graph/text_form.h"
#include "models/config.h"
#include "ops/registry.h"
#include "passes/pipeline.h"
#include "runtime/program.h"
#include "train/step.h"

namespace ridge::bench {
namespace {

constexpr size_t kMostPresetCases = 8;
constexpr int64_t kMostOperandBytes = int64_t{2} << 30;
constexpr int kWarmups = 3;
constexpr int kMostSamples = 50;
constexpr int kLeastSamples = 7;     // one more than the fewest whose interval reaches 95%
constexpr double kSampleNs = 200e3;  // shorter calls are repeated: a clock reading costs 30 ns
constexpr double kBudgetNs = 500e6;  // for all samples of a case

std::string types_text(const Case& each) {
  std::string text;
  for (const CaseInput& input : each.inputs) text += (text.empty() ? "" : ", ") + input.type.str();
  constexpr size_t kLongest = 60;
  return text.size() <= kLongest
             ? text
             : text.substr(0, kLongest) + fmt::format("... ({} inputs)", each.inputs.size());
}

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

std::vector<double> draw(const CaseInput& input, Random& random) {
  int64_t n = input.type.shape.elements();
  std::vector<float> normal(static_cast<size_t>(n));
  const Fill& fill = input.fill;
  if (fill.kind == Fill::kNormal || fill.kind == Fill::kPositive) random.fill_normal(normal, 1.0f);
  std::vector<double> data(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) {
    double& value = data[static_cast<size_t>(i)];
    double drawn = normal[static_cast<size_t>(i)];
    switch (fill.kind) {
      case Fill::kNormal:
        value = drawn * fill.parameter;
        break;
      case Fill::kPositive:
        value = 0.1 + std::abs(drawn);
        break;
      case Fill::kIds:
        value = random.below(static_cast<uint32_t>(std::max(fill.parameter, 1.0)));
        break;
      case Fill::kPositions:
        value = static_cast<double>(i % std::max<int64_t>(static_cast<int64_t>(fill.parameter), 1));
        break;
      case Fill::kConstant:
        value = fill.parameter;
        break;
      case Fill::kDistinct:
        value = static_cast<double>(i % 251);
        break;
    }
  }
  return data;
}

template <typename T, typename Convert>
std::vector<std::byte> bytes_of(const std::vector<double>& data, const Convert& convert) {
  std::vector<std::byte> bytes(data.size() * sizeof(T));
  for (size_t i = 0; i < data.size(); ++i) {
    T value = convert(data[i]);
    std::memcpy(&bytes[i * sizeof(T)], &value, sizeof(T));
  }
  return bytes;
}

std::vector<std::byte> encode(DType dtype, const std::vector<double>& data) {
  switch (dtype) {
    case DType::kF32:
      return bytes_of<float>(data, [](double x) { return static_cast<float>(x); });
    case DType::kBF16:
      return bytes_of<uint16_t>(data,
                                [](double x) { return float_to_bf16(static_cast<float>(x)); });
    case DType::kI32:
      return bytes_of<int32_t>(data, [](double x) { return static_cast<int32_t>(x); });
    default:
      break;
  }
  if (!files::can_quantize(dtype))
    throw usage_error("[bench] no data for elements of type {}", name(dtype));
  std::vector<float> floats(data.begin(), data.end());
  std::vector<std::byte> bytes(
      static_cast<size_t>(storage_bytes(dtype, static_cast<int64_t>(data.size()))));
  files::quantize(dtype, floats, bytes);
  return bytes;
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

void fill_store(const Case& each, runtime::Store& store) {
  Random random(7);
  for (size_t i = 0; i < each.inputs.size(); ++i) {
    std::string name = fmt::format("input.{}", i);
    if (!store.has(name)) continue;  // the expansion does not read this input
    std::vector<std::byte> bytes = encode(each.inputs[i].type.dtype, draw(each.inputs[i], random));
    store.write(name, bytes.data(), static_cast<int64_t>(bytes.size()));
  }
}

Summary time_calls(runtime::Program& program) {
  for (int i = 0; i < kWarmups; ++i) program.run(0);
  program.wait();
  double begin = now_ns();
  program.run(0);
  program.wait();
  double one = std::max(now_ns() - begin, 1.0);
  int64_t repeats = std::max<int64_t>(1, std::llround(kSampleNs / one));
  std::vector<double> samples;
  double start = now_ns();
  while (samples.size() < kLeastSamples ||
         (samples.size() < kMostSamples && now_ns() - start < kBudgetNs)) {
    begin = now_ns();
    for (int64_t i = 0; i < repeats; ++i) program.run(0);
    program.wait();
    samples.push_back((now_ns() - begin) / static_cast<double>(repeats));
  }
  return summarize(samples);
}

std::string refusal(const Case& each, const Graph& graph, const plan::Target& target) {
  int64_t bytes = 0;
  for (const CaseInput& input : each.inputs)
    bytes += storage_bytes(input.type.dtype, input.type.shape.elements());
  if (bytes > kMostOperandBytes) return fmt::format("its operands take {}", format_bytes(bytes));
  for (const Node& node : graph.nodes)
    if (std::string why = target.unsupported(graph, node); !why.empty())
      return node.op->name + ": " + why;
  return "";
}

// The smallest level of memory that holds a working set.
std::string level_of(int64_t bytes, const std::vector<cost::MemoryLevel>& levels) {
  for (const cost::MemoryLevel& level : levels)
    if (bytes <= level.capacity_bytes) return level.name;
  return levels.empty() ? "" : levels.back().name;
}

// Adds the nodes of `op` in one training step as cases.
void collect(const Op& op,
             const models::Preset& preset,
             const passes::Selection& selection,
             const passes::PassTarget& target,
             std::set<std::string>& seen,
             std::vector<Case>& found) {
  std::vector<Case> cases = op.cases == nullptr ? std::vector<Case>() : op.cases();
  train::StepOptions options;
  options.batch_size = preset.batch_size;
  options.sequence = preset.sequence;
  train::TrainingStep step =
      train::build_step(preset.config, options, selection, ops::table(), target);
  for (const train::StepGraph& each : step.graphs)
    for (const Node& node : each.graph.nodes) {
      if (node.op != &op) continue;
      Case made{preset.config.name, {}, node.attrs};
      std::string key;
      for (ValueId input : node.inputs) {
        Type type = each.graph.type(input);
        made.inputs.push_back(
            {type, fill_for(cases, made.inputs.size(), type.dtype, preset.config.vocabulary)});
        key += type.str() + ",";
      }
      Graph alone = one_node(op, made);
      PrintOptions plain{.origins = false, .scopes = false};
      if (seen.insert(key + print(alone, plain)).second) found.push_back(std::move(made));
    }
}

}  // namespace

std::vector<Case> preset_cases(const Op& op, DType dtype, const passes::PassTarget& target) {
  std::set<std::string> seen;
  std::vector<Case> found;
  const char* switches = dtype == DType::kBF16 ? "+autocast_bf16" : "";
  for (const char* preset : {"tiny", "small"})
    for (const passes::Level* level : {&passes::levels().front(), &passes::levels().back()})
      collect(op, models::preset(preset), passes::Selection(level->name, switches), target, seen,
              found);
  auto size = [](const Case& each) {
    int64_t elements = 0;
    for (const CaseInput& input : each.inputs) elements += input.type.shape.elements();
    return elements;
  };
  std::stable_sort(found.begin(), found.end(),
                   [&](const Case& a, const Case& b) { return size(a) > size(b); });
  if (found.size() > kMostPresetCases) found.resize(kMostPresetCases);
  return found;
}

std::vector<Case> stored_cases(const Op& op) {
  if (op.name != "matmul_group") return {};
  std::vector<Case> cases;
  for (DType dtype : {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ8_0, DType::kQ4_K,
                      DType::kQ6_K, DType::kBF16})
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

OpTrial run_trial(const Op& op,
                  const Case& each,
                  backends::Backend& backend,
                  const cost::Ceilings& ceilings) {
  OpTrial trial;
  trial.name = each.name;
  trial.types = types_text(each);
  try {
    LoadGraph load;
    passes::PassContext context{ops::table(), backend, load};
    passes::Selection selection("baseline", "");
    Graph graph =
        passes::run_stage(passes::Stage::kForward, one_node(op, each), selection, context, nullptr);
    graph = passes::run_stage(passes::Stage::kTarget, graph, selection, context, nullptr);
    trial.refused = refusal(each, graph, backend);
    if (!trial.refused.empty()) return trial;
    runtime::Store store(backend);
    runtime::Program program(backend, store);
    program.add("op", std::move(graph));
    program.bind();
    fill_store(each, store);
    const cost::CostedGraph& costed = *program.graph(0).costed;
    trial.cost = cost::total(costed.costs);
    const std::vector<cost::NodePrediction> predictions = cost::predict_nodes(costed, ceilings);
    trial.predicted_ns = cost::total_ns(predictions);
    for (const cost::NodePrediction& each_node : predictions)
      if (each_node.bound != cost::Bound::kNone) trial.bound = each_node.bound;
    trial.level = level_of(store.bytes() + program.arena_bytes(), ceilings.levels);
    trial.time = time_calls(program);
  } catch (const Error& error) {
    trial.refused = error.what();  // the op or the machine does not support a type or shape
  }
  return trial;
}

}  // namespace ridge::bench
