// SPDX-License-Identifier: Apache-2.0
// Bindings of the pointwise primitives, which are compiled with Ridge, and of clusters, whose
// kernels are generated for their program and layouts.
#include "backends/cuda/kernels/pointwise/pointwise.h"

#include <algorithm>
#include <memory>
#include <string>

#include "backends/bind/pointwise_program.h"
#include "backends/cuda/gemm.h"
#include "backends/cuda/kernel_table.h"
#include "backends/cuda/pointwise_compiler.h"
#include "backends/cuda/pointwise_source.h"
#include "base/error.h"
#include "ops/pointwise.h"

namespace ridge::backends::cuda {
namespace {

PointwiseOperand pointwise_operand(const Operand& operand) {
  PointwiseOperand o;
  o.data = operand.data;
  o.dtype = operand.type.dtype;
  for (int axis = 0; axis < operand.strides.rank(); ++axis) o.strides[axis] = operand.strides[axis];
  return o;
}

Launch bind(const BindCall& call, BindContext& context) {
  PointwiseCall p;
  p.function = ops::pointwise_function(*call.node.op);
  p.parameter = static_cast<float>(ops::pointwise_parameter(call.attrs()));
  const Shape& shape = call.outputs[0].type.shape;
  p.rank = shape.rank();
  for (int axis = 0; axis < p.rank; ++axis) p.extents[axis] = shape[axis];
  p.a = pointwise_operand(call.inputs.front());
  p.b = pointwise_operand(call.inputs.back());
  p.y = pointwise_operand(call.outputs[0]);
  return launch_on(context.device, "pointwise", launch_pointwise, p);
}

PointwiseAccess access(const Operand& operand) {
  return {operand.type.dtype, operand.strides, alignment_of(operand.data)};
}

// The arguments of a launch, and their addresses.
struct Arguments {
  Arguments(std::vector<void*> operands, long long count)
      : pointers(std::move(operands)), vectors(count) {
    for (void*& pointer : pointers) addresses.push_back(&pointer);
    addresses.push_back(&vectors);
  }
  Arguments(const Arguments&) = delete;
  std::vector<void*> pointers;
  long long vectors;
  std::vector<void*> addresses;
};

Launch bind_generated(const BindCall& call, BindContext& context) {
  const Graph& graph = call.attrs().nested("program");
  std::vector<PointwiseAccess> inputs, outputs;
  std::vector<void*> pointers;
  for (const Operand& operand : call.inputs)
    inputs.push_back(access(operand)), pointers.push_back(operand.data);
  for (const Operand& operand : call.outputs)
    outputs.push_back(access(operand)), pointers.push_back(operand.data);
  GeneratedKernel made = generate(pointwise_program(graph, call.inputs.size()),
                                  graph.shape(graph.outputs[0]), inputs, outputs);
  if (made.vectors == 0) return [] {};
  cudaKernel_t kernel = context.compiler.kernel(made.source);
  int64_t blocks = ceil_div(made.vectors, kGeneratedThreads);
  RIDGE_CHECK(blocks < int64_t{1} << 31, "a cluster of {} vectors", made.vectors);
  auto arguments =
      std::make_shared<Arguments>(std::move(pointers), static_cast<long long>(made.vectors));
  return [kernel, arguments, blocks, &device = context.device] {
    check(
        cudaLaunchKernel(reinterpret_cast<const void*>(kernel), dim3(static_cast<unsigned>(blocks)),
                         dim3(kGeneratedThreads), arguments->addresses.data(), 0, device.stream()),
        "generated_pointwise");
  };
}

// Finding the elements of an operand that is broadcast takes divisions, about as long as a trip.
int rounds(const Call& call) {
  const bool is_broadcast = std::ranges::any_of(
      call.inputs, [&](const Type& input) { return input.shape != call.outputs[0].shape; });
  return is_broadcast ? 2 : 1;
}

}  // namespace

Kernel pointwise_kernel(BindContext& context) {
  return pointwise_kernel_of("", in_context(bind, context)).in_rounds(rounds);
}

Kernel generated_pointwise_kernel(BindContext& context) {
  return pointwise_kernel_of("generated_pointwise", in_context(bind_generated, context))
      .in_rounds(2);
}

}  // namespace ridge::backends::cuda
