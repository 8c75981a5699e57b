// SPDX-License-Identifier: Apache-2.0
// Bindings of the optimizer's side: adamw, adamw_multi,
// sum_squares, clip_coefficient, accumulate and zero.
#include "backends/cpu/kernels/adamw.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/adamw_call.h"
#include "backends/cpu/cpu_kernel.h"
#include "backends/cpu/kernels/pointwise/tile_program.h"
#include "backends/cpu/kernels/reduce.h"
#include "base/error.h"

namespace ridge::backends::cpu {
namespace {

Launch bind(const BindCall& call) {
  return [tensors = adamw_tensors(call), step = adamw_step(call)] { adamw_multi(tensors, step); };
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
