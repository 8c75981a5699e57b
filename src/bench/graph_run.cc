// SPDX-License-Identifier: Apache-2.0
// Rewrites, loads, runs and reads.
#include "bench/graph_run.h"

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

std::vector<std::vector<float>> run_graph(const TrialGraph& trial,
                                          const passes::Selection& selection,
                                          backends::Backend& backend,
                                          const OperandBytes& given) {
  expect_given(trial.graph, given);
  TrialSetting setting;
  setting.selection = selection;
  PreparedGraph prepared = prepare(trial, setting, backend);
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
  std::vector<std::vector<float>> outputs;
  const std::vector<ValueId> ids = program.graph(0).graph().outputs;
  for (const ValueId output : ids) outputs.push_back(program.read(0, output));
  return outputs;
}

}  // namespace ridge::bench
