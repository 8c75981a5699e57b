// SPDX-License-Identifier: Apache-2.0
// Gives a kernel operands of its own and reads what it wrote.
#include "bench/own_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <memory>
#include <utility>

#include "base/bf16.h"
#include "base/error.h"
#include "bench/graph_file.h"
#include "bench/graph_run.h"
#include "graph/builder.h"
#include "ops/double_run.h"
#include "ops/registry.h"

namespace ridge::bench {
namespace {

bool is_kernel_type(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kBF16 || dtype == DType::kF16 ||
         dtype == DType::kI32;
}

// The call as a graph of one node, whose inputs are "input.0" and so on.
Graph one_node(const OwnKernel& kernel) {
  Graph graph;
  Builder b(graph, ops::table());
  std::vector<ValueId> inputs;
  for (const Type& type : kernel.inputs)
    inputs.push_back(b.input(fmt::format("input.{}", inputs.size()), type));
  graph.outputs = b.call_all(kernel.op->name, inputs, kernel.attrs);
  return graph;
}

std::vector<std::byte> stored_values(const Tensor64& tensor) {
  const Value operand{.type = tensor.type, .name = "an input"};
  if (tensor.type.dtype == DType::kI32)
    return stored(operand, std::vector<int32_t>(tensor.data.begin(), tensor.data.end()));
  return stored(operand, std::vector<float>(tensor.data.begin(), tensor.data.end()));
}

double value_at(const std::byte* bytes, DType dtype, size_t i) {
  if (dtype == DType::kF32 || dtype == DType::kI32) {
    uint32_t bits;
    std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
    return dtype == DType::kI32 ? static_cast<double>(static_cast<int32_t>(bits))
                                : static_cast<double>(std::bit_cast<float>(bits));
  }
  uint16_t bits;
  std::memcpy(&bits, bytes + i * sizeof bits, sizeof bits);
  return static_cast<double>(dtype == DType::kBF16 ? bf16_to_float(bits) : f16_to_float(bits));
}

// The operands of a call in the memory of a backend. What a kernel leaves unwritten is NaN.
class Operands {
 public:
  Operands(const OwnKernel& kernel, const ops::NamedTensors& values, backends::Backend& backend)
      : kernel_(kernel), backend_(backend) {
    for (size_t i = 0; i < kernel.inputs.size(); ++i)
      add(kernel.inputs[i], stored_values(values.at(fmt::format("input.{}", i))));
    for (const Type& type : kernel.outputs())
      add(type, std::vector(bytes_of(type), std::byte{0xff}));
    for (const Type& type : types_) shapes_.push_back(type.shape.to_vector());
    for (size_t i = 0; i < types_.size(); ++i)
      tensors_.push_back({memory_[i]->data(), shapes_[i].data(), std::ssize(shapes_[i])});
    backend.synchronize();  // the kernel need not run on the backend's stream
  }

  void launch() { kernel_.code.launch(tensors_); }
  void wait() { kernel_.code.wait(); }
  std::vector<double> output(size_t number) const {
    const size_t i = kernel_.inputs.size() + number;
    std::vector<std::byte> bytes(bytes_of(types_[i]));
    backend_.copy_out(bytes.data(), memory_[i]->data(), std::ssize(bytes));
    std::vector<double> values(static_cast<size_t>(types_[i].shape.elements()));
    for (size_t at = 0; at < values.size(); ++at)
      values[at] = value_at(bytes.data(), types_[i].dtype, at);
    return values;
  }

 private:
  static size_t bytes_of(const Type& type) {
    return static_cast<size_t>(storage_bytes(type.dtype, type.shape.elements()));
  }
  void add(const Type& type, const std::vector<std::byte>& bytes) {
    memory_.push_back(backend_.allocate(std::max<int64_t>(std::ssize(bytes), 1), "an operand"));
    backend_.copy_in(memory_.back()->data(), bytes.data(), std::ssize(bytes));
    types_.push_back(type);
  }

  const OwnKernel& kernel_;
  backends::Backend& backend_;
  std::vector<std::unique_ptr<backends::Memory>> memory_;
  std::vector<Type> types_;
  std::vector<std::vector<int64_t>> shapes_;
  std::vector<backends::KernelTensor> tensors_;
};

// Ids are below the extent that they index, as in the trial of a graph.
ops::NamedTensors random_inputs(const Graph& graph) {
  int64_t ids = std::numeric_limits<int32_t>::max();
  for (const Value& each : graph.values)
    if (each.producer == kNoNode && is_float(each.type.dtype) && each.type.shape.rank() > 0)
      ids = std::min(ids, each.type.shape[0]);
  return ops::random_operands(graph, 17, std::max<int64_t>(ids, 1));
}

}  // namespace

std::vector<Type> OwnKernel::outputs() const {
  const Graph graph = one_node(*this);
  const Node& node = graph.nodes.at(0);
  if (!aliases(graph, node).empty())
    throw usage_error("[{}] expected an op that updates nothing in place, got {}", name, op->name);
  std::vector<Type> types;
  for (const ValueId output : node.outputs) types.push_back(graph.type(output));
  for (const std::vector<Type>& all : {inputs, types})
    for (const Type& type : all)
      if (!is_kernel_type(type.dtype))
        throw usage_error("[{}] expected f32, bf16, f16 or i32, got {}", name, type.str());
  return types;
}

double usual_error(DType dtype) {
  return dtype == DType::kBF16 ? 2e-2 : dtype == DType::kF16 ? 2e-3 : 1e-4;
}

double kernel_error(const OwnKernel& kernel, backends::Backend& backend) {
  const Graph graph = one_node(kernel);
  const ops::NamedTensors values = random_inputs(graph);
  Operands operands(kernel, values, backend);
  operands.launch();
  operands.wait();
  const std::vector<Tensor64> expected = ops::run_in_double(graph, values);
  double most = 0;
  for (size_t i = 0; i < expected.size(); ++i)
    most = std::max(most, ops::relative_error(operands.output(i), expected[i].data));
  return most;
}

record::BenchRecord time_kernel(const OwnKernel& kernel,
                                const TrialSetting& setting,
                                backends::Backend& backend,
                                const cost::Ceilings* ceilings) {
  const Graph graph = one_node(kernel);
  record::BenchPoint ridges = run_trial(trial_of(graph), setting, backend, ceilings);
  Operands operands(kernel, random_inputs(graph), backend);
  record::BenchPoint own = ridges;
  own.form = kernel.name, ridges.form = "ridge";
  own.kernels.clear();
  own.time = time_repeatedly([&] { operands.launch(); }, [&] { operands.wait(); },
                             setting.budget_ns, setting.is_stopped);
  if (own.is_measured() && ridges.is_measured()) own.speedup = ridges.time.median / own.time.median;
  record::BenchRecord made;
  made.kind = "op";
  made.name = kernel.op->name;
  made.formula = kernel.op->formula;
  made.dtype = name(kernel.inputs.empty() ? DType::kF32 : kernel.inputs[0].dtype);
  made.points = {std::move(ridges), std::move(own)};
  return made;
}

}  // namespace ridge::bench
