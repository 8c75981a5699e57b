// SPDX-License-Identifier: Apache-2.0
// Bindings of the optimizer's side: adamw, adamw_multi,
// sum_squares, clip_coefficient, accumulate and zero.
#include "backends/cuda/kernels/adamw.h"

#include <vector>

#include "backends/adamw_call.h"
#include "backends/cuda/cuda_kernel.h"
#include "backends/cuda/kernels/copy/fill.h"
#include "backends/cuda/kernels/reduce/reduce.h"
#include "backends/cuda/strided_copy.h"
#include "ops/adamw.h"

namespace ridge::backends::cuda {
namespace {

Launch bind(const BindCall& call, BindContext& context) {
  return [tensors = adamw_tensors(call), step = adamw_step(call), leaves_room = call.is_background,
          &device = context.device] {
    check(launch_adamw(tensors, step, leaves_room, device.stream()), "adamw");
  };
}

int launches(const Call& call, bool) {
  return adamw_launches(
      static_cast<int64_t>(ops::adamw_tensors(call.inputs.size(), call.attrs).size()));
}

std::vector<SquaresTensor> squares_of(const BindCall& call) {
  std::vector<SquaresTensor> tensors;
  for (const Operand& x : call.inputs)
    tensors.push_back({x.type.shape.elements(),
                       x.type.dtype == DType::kF32 ? x.as<const float>() : nullptr,
                       x.type.dtype == DType::kBF16 ? x.as<const uint16_t>() : nullptr});
  return tensors;
}

// Sizes alone count where nothing is bound yet.
std::vector<SquaresTensor> squares_of(const Call& call) {
  std::vector<SquaresTensor> tensors;
  for (const Type& type : call.inputs) tensors.push_back({type.shape.elements(), nullptr, nullptr});
  return tensors;
}

Launch bind_squares(const BindCall& call, BindContext& context) {
  return [tensors = squares_of(call), y = call.outputs[0].as<float>(),
          workspace = reinterpret_cast<double*>(call.workspace), &device = context.device] {
    check(launch_sum_squares({tensors, y, workspace}, device.stream()), "sum_squares");
  };
}

int64_t squares_workspace(const Call& call) {
  return sum_squares_workspace_bytes(squares_of(call));
}
int squares_launches(const Call& call, bool) { return sum_squares_launches(squares_of(call)); }

Launch bind_clip(const BindCall& call, BindContext& context) {
  constexpr double kNormEpsilon = 1e-6;  // as ops/clip.cc
  return [sum = call.inputs[0].as<const float>(), out = call.outputs[0].as<float>(),
          limit = call.attrs().real("max_norm"), &device = context.device] {
    check(launch_clip_coefficient(sum, limit, kNormEpsilon, out, device.stream()),
          "clip_coefficient");
  };
}

// The total is the output's own bytes.
Launch bind_accumulate(const BindCall& call, BindContext& context) {
  return bind_copy(call.inputs[1], call.outputs[0], true, "accumulate", context.device);
}

Launch bind_zero(const BindCall& call, BindContext& context) {
  const Operand& out = call.outputs[0];
  int64_t elements = out.type.shape.elements();
  // No bits are set in either
  DType dtype = out.type.dtype == DType::kI32 ? DType::kF32 : out.type.dtype;
  return by_dtype(dtype, [&](auto element) -> Launch {
    using T = decltype(element);
    return launch_on(context.device, "zero", launch_fill<T>,
                     Fill<T>{1, elements, {out.as<T>(), elements}, 0});
  });
}

bool takes_term(const Call&, int input, const Layout&) { return input == 1; }

}  // namespace

const CudaKernel& adamw_kernel() {
  static const CudaKernel kernel{.op = "adamw", .bind = bind, .launches = launches, .rounds = 4};
  return kernel;
}

const CudaKernel& adamw_multi_kernel() {
  static const CudaKernel kernel{
      .op = "adamw_multi", .bind = bind, .launches = launches, .rounds = 4};
  return kernel;
}

const CudaKernel& sum_squares_kernel() {
  static const CudaKernel kernel{.op = "sum_squares",
                                 .bind = bind_squares,
                                 .workspace_bytes = squares_workspace,
                                 .launches = squares_launches,
                                 .rounds = 4};
  return kernel;
}

const CudaKernel& clip_coefficient_kernel() {
  static const CudaKernel kernel{.op = "clip_coefficient", .bind = bind_clip};
  return kernel;
}

const CudaKernel& accumulate_kernel() {
  static const CudaKernel kernel{
      .op = "accumulate", .bind = bind_accumulate, .takes_input = takes_term};
  return kernel;
}

const CudaKernel& zero_kernel() {
  static const CudaKernel kernel{.op = "zero", .bind = bind_zero};
  return kernel;
}

}  // namespace ridge::backends::cuda
