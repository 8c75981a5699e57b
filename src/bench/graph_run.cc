// SPDX-License-Identifier: Apache-2.0
// Rewrites, loads, runs and reads.
#include "bench/graph_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "files/quantize.h"
#include "runtime/load.h"
#include "runtime/program.h"

namespace ridge::bench {
namespace {

void expect_given(const Graph& graph, const OperandBytes& given) {
  const std::vector<Value> operands = operands_of(graph);
  for (const Value& each : operands)
    if (each.storage != Storage::kState && !given.contains(each.name))
      throw usage_error("[run] expected a value of {} \"{}\", {}", name(each.storage),
                        printable(each.name), each.type.str());
  for (const auto& [name, bytes] : given)
    if (std::ranges::none_of(operands, [&](const Value& v) { return v.name == name; }))
      throw usage_error("[run] the graph has no operand \"{}\"", printable(name));
  for (const ValueId output : graph.outputs)
    if (!is_float(graph.type(output).dtype))
      throw usage_error("[run] expected outputs of floats, got {}", graph.type(output).str());
}

}  // namespace

std::vector<Value> operands_of(const Graph& graph) {
  std::vector<Value> operands;
  for (const Value& value : graph.values)
    if (value.storage != Storage::kTemporary && value.producer == kNoNode)
      operands.push_back(value);
  return operands;
}

std::vector<std::byte> stored(const Value& operand, const std::vector<float>& values) {
  const auto& [dtype, shape] = operand.type;
  RIDGE_CHECK(std::ssize(values) == shape.elements(), "{} values for {}", values.size(),
              operand.type.str());
  if (!files::can_quantize(dtype))
    throw usage_error("[{}] expected an operand of floats, it is {}", printable(operand.name),
                      operand.type.str());
  std::vector<std::byte> bytes(static_cast<size_t>(storage_bytes(dtype, shape.elements())));
  files::quantize(dtype, values, bytes);
  return bytes;
}

std::vector<std::byte> stored(const Value& operand, const std::vector<int32_t>& values) {
  const auto& [dtype, shape] = operand.type;
  RIDGE_CHECK(std::ssize(values) == shape.elements(), "{} values for {}", values.size(),
              operand.type.str());
  if (dtype != DType::kI32)
    throw usage_error("[{}] expected an operand of i32, it is {}", printable(operand.name),
                      operand.type.str());
  std::vector<std::byte> bytes(values.size() * sizeof(int32_t));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

namespace {

struct RunResults {
  std::vector<std::vector<float>> values;
  std::vector<Type> types;
  std::vector<std::string> differentiated;
};

RunResults run_prepared(PreparedGraph prepared,
                        backends::Backend& backend,
                        const OperandBytes& given) {
  RunResults results;
  results.differentiated = prepared.differentiated;
  runtime::Store store(backend);
  if (!prepared.load.stored.empty())
    runtime::load_stored(prepared.load,
                         {.bytes = [&](const std::string& name) -> std::span<const std::byte> {
                            return given.at(name);
                          },
                          .copies = true},
                         store);
  runtime::Program program(backend, store);
  program.add("graph", std::move(prepared.graph));
  program.bind();
  for (const auto& [name, bytes] : given)
    if (store.has(name) && !prepared.load.stored.contains(name))
      store.write(name, bytes.data(), std::ssize(bytes));
  program.run(0);
  program.wait();
  const Graph& graph = program.graph(0).graph();
  const std::vector<ValueId> ids = graph.outputs;
  for (const ValueId output : ids) {
    results.types.push_back(graph.type(output));
    results.values.push_back(program.read(0, output));
  }
  return results;
}

// The numbers as the operand stores them.
std::vector<std::byte> stored_list(const Value& operand, const std::vector<float>& values) {
  if (std::ssize(values) != operand.type.shape.elements())
    throw usage_error("[value] expected {} numbers for \"{}\", {}, got {}",
                      operand.type.shape.elements(), printable(operand.name), operand.type.str(),
                      values.size());
  if (is_float(operand.type.dtype)) return stored(operand, values);
  return stored(operand, std::vector<int32_t>(values.begin(), values.end()));
}

OperandBytes stored_lists(const TrialGraph& trial,
                          const std::map<std::string, std::vector<float>>& values) {
  OperandBytes given;
  for (const Value& operand : operands_of(trial.graph))
    if (const auto found = values.find(operand.name); found != values.end())
      given[operand.name] = stored_list(operand, found->second);
  for (const auto& [name, list] : values) given.try_emplace(name);  // unknown ones are refused
  expect_given(trial.graph, given);
  return given;
}

}  // namespace

std::vector<std::vector<float>> run_graph(const TrialGraph& trial,
                                          const passes::Selection& selection,
                                          backends::Backend& backend,
                                          const OperandBytes& given) {
  expect_given(trial.graph, given);
  TrialSetting setting;
  setting.selection = selection;
  return run_prepared(prepare(trial, setting, backend), backend, given).values;
}

std::vector<NamedResult> run_on_values(const TrialGraph& trial,
                                       const TrialSetting& setting,
                                       backends::Backend& backend,
                                       const std::map<std::string, std::vector<float>>& values) {
  OperandBytes given = stored_lists(trial, values);
  PreparedGraph prepared = prepare(trial, setting, backend);
  for (const Value& operand : operands_of(prepared.graph))
    if (setting.is_backward && !given.contains(operand.name) && operand.storage == Storage::kInput)
      given[operand.name] = stored(
          operand, std::vector<float>(static_cast<size_t>(operand.type.shape.elements()), 1.0f));
  RunResults run = run_prepared(std::move(prepared), backend, given);
  const size_t own = run.values.size() - run.differentiated.size();
  std::vector<NamedResult> results;
  for (size_t i = 0; i < run.values.size(); ++i)
    results.push_back({i >= own   ? "gradient of " + run.differentiated[i - own]
                       : own == 1 ? std::string("result")
                                  : fmt::format("result {}", i),
                       run.types[i], std::move(run.values[i])});
  return results;
}

}  // namespace ridge::bench
