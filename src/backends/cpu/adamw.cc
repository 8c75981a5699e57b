// SPDX-License-Identifier: Apache-2.0
// Bindings of the optimizer's side: adamw, adamw_multi, sum_squares, clip_coefficient, accumulate
// and zero.
#include "backends/cpu/kernels/adamw.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/reduce.h"
#include "backends/cpu/kernels/tile_program.h"
#include "base/error.h"
#include "ops/adamw.h"

namespace ridge::backends::cpu {
namespace {

// The scalars that change from step to step stay in memory; the rest is fixed.
struct StepInputs {
  const float* learning_rate;
  const float* step;
  const float* clip;  // null: no clipping
  AdamwStep fixed;

  AdamwStep now() const {
    AdamwStep s = fixed;
    s.learning_rate = *learning_rate;
    s.step = static_cast<int64_t>(*step);
    if (clip != nullptr) s.gradient_scale = *clip;
    return s;
  }
};

StepInputs step_inputs(const BindCall& call) {
  StepInputs inputs{
      call.inputs[0].as<const float>(), call.inputs[1].as<const float>(), nullptr, {}};
  if (call.attrs().flag("clip")) inputs.clip = call.inputs[2].as<const float>();
  inputs.fixed.beta1 = call.attrs().real("beta1");
  inputs.fixed.beta2 = call.attrs().real("beta2");
  inputs.fixed.eps = call.attrs().real("eps");
  return inputs;
}

template <typename Gradient>
std::vector<AdamwTensor<Gradient>> tensors_of(const BindCall& call, DType gradient) {
  std::vector<AdamwTensor<Gradient>> tensors;
  for (const ops::AdamwTensor& t : ops::adamw_tensors(call.inputs.size(), call.attrs())) {
    const Operand* operands = &call.inputs[static_cast<size_t>(t.input)];
    if (operands[1].type.dtype != gradient) continue;
    AdamwTensor<Gradient> tensor;
    tensor.elements = operands[0].type.shape.elements();
    tensor.parameter = operands[0].as<float>();
    tensor.gradient = operands[1].as<const Gradient>();
    tensor.m = operands[2].as<float>();
    tensor.v = operands[3].as<float>();
    tensor.bf16_parameter = t.copy ? operands[4].as<uint16_t>() : nullptr;
    tensor.weight_decay = call.attrs().real("weight_decay");
    tensors.push_back(tensor);
  }
  return tensors;
}

// Tensors with fp32 gradients (norms, tables) and with bf16 ones, each list in one parallel region.
Launch bind(const BindCall& call) {
  return [inputs = step_inputs(call), wide = tensors_of<float>(call, DType::kF32),
          narrow = tensors_of<uint16_t>(call, DType::kBF16)] {
    AdamwStep step = inputs.now();
    if (!wide.empty()) adamw_multi<float>(wide, step);
    if (!narrow.empty()) adamw_multi<uint16_t>(narrow, step);
  };
}

Launch bind_squares(const BindCall& call) {
  return [inputs = call.inputs, out = call.outputs[0].as<float>(),
          workspace = reinterpret_cast<double*>(call.workspace)] {
    double total = 0;
    for (const Operand& x : inputs) {
      int64_t n = x.type.shape.elements();
      total += x.type.dtype == DType::kF32 ? sum_squares(x.as<const float>(), n, workspace)
                                           : sum_squares(x.as<const uint16_t>(), n, workspace);
    }
    *out = static_cast<float>(total);
  };
}

int64_t squares_workspace(const Call& call) {
  int64_t bytes = 0;
  for (const Type& type : call.inputs)
    bytes = std::max(bytes, sum_squares_workspace_bytes(type.shape.elements()));
  return bytes;
}

Launch bind_clip(const BindCall& call) {
  constexpr double kNormEpsilon = 1e-6;  // as ops/clip.cc
  return [sum = call.inputs[0].as<const float>(), out = call.outputs[0].as<float>(),
          limit = call.attrs().real("max_norm")] {
    *out = static_cast<float>(
        std::min(1.0, limit / (std::sqrt(static_cast<double>(*sum)) + kNormEpsilon)));
  };
}

Launch bind_accumulate(const BindCall& call) {
  TileProgram program{{{Pointwise::kAdd, 2, 0, 1, 0.0f}}, {2}, 3};
  auto operand = [](const Operand& o) { return TileOperand{o.data, o.type.dtype, o.strides}; };
  TileKernel kernel(program, call.inputs[0].type.shape,
                    {operand(call.inputs[0]), operand(call.inputs[1])}, {operand(call.outputs[0])});
  return [kernel = std::move(kernel)] { kernel.run(); };
}

Launch bind_zero(const BindCall& call) {
  size_t bytes = static_cast<size_t>(
      storage_bytes(call.outputs[0].type.dtype, call.outputs[0].type.shape.elements()));
  return [data = call.outputs[0].data, bytes] { std::memset(data, 0, bytes); };
}

bool takes_term(const Call&, int input, const Layout&) { return input == 1; }

}  // namespace

const CpuKernel& adamw_kernel() {
  static const CpuKernel kernel{.op = "adamw", .bind = bind};
  return kernel;
}

const CpuKernel& adamw_multi_kernel() {
  static const CpuKernel kernel{.op = "adamw_multi", .bind = bind};
  return kernel;
}

const CpuKernel& sum_squares_kernel() {
  static const CpuKernel kernel{
      .op = "sum_squares", .bind = bind_squares, .workspace_bytes = squares_workspace};
  return kernel;
}

const CpuKernel& clip_coefficient_kernel() {
  static const CpuKernel kernel{.op = "clip_coefficient", .bind = bind_clip};
  return kernel;
}

const CpuKernel& accumulate_kernel() {
  static const CpuKernel kernel{
      .op = "accumulate", .bind = bind_accumulate, .takes_input = takes_term};
  return kernel;
}

const CpuKernel& zero_kernel() {
  static const CpuKernel kernel{.op = "zero", .bind = bind_zero};
  return kernel;
}

}  // namespace ridge::backends::cpu
