// SPDX-License-Identifier: Apache-2.0
// Bindings of gradient clipping: sum_squares and clip_coefficient.
#include <utility>

#include "backends/bind/bindings.h"

namespace ridge::backends::bind {
namespace {

SquaresSum squares_call(const BindCall& call) {
  SquaresSum sum;
  for (const Operand& x : call.inputs)
    sum.tensors.push_back({x.type.shape.elements(),
                           x.type.dtype == DType::kF32 ? x.as<const float>() : nullptr,
                           x.type.dtype == DType::kBF16 ? x.as<const uint16_t>() : nullptr,
                           x.type.dtype == DType::kF16 ? x.as<const Float16>() : nullptr});
  sum.y = call.outputs[0].as<float>();
  sum.workspace = reinterpret_cast<double*>(call.workspace);
  return sum;
}

ClipCoefficient clip_call(const BindCall& call) {
  constexpr double kNormEpsilon = 1e-6;  // as in ops/clip.cc
  return {call.inputs[0].as<const float>(), call.attrs().real("max_norm"), kNormEpsilon,
          call.outputs[0].as<float>()};
}

}  // namespace

std::vector<SquaresTensor> squares_of(const Call& call) {
  std::vector<SquaresTensor> tensors;
  for (const Type& type : call.inputs) {
    SquaresTensor& tensor = tensors.emplace_back();
    tensor.elements = type.shape.elements();
  }
  return tensors;
}

Kernel sum_squares(Launcher<SquaresSum> launcher,
                   int64_t (*workspace_bytes)(std::span<const SquaresTensor>)) {
  return {.op = "sum_squares",
          .bind = bind_one(std::move(launcher), squares_call),
          .workspace_bytes = [workspace_bytes](const Call& call) {
            return workspace_bytes(squares_of(call));
          }};
}

Kernel clip_coefficient(Launcher<ClipCoefficient> launcher) {
  return {.op = "clip_coefficient", .bind = bind_one(std::move(launcher), clip_call)};
}

}  // namespace ridge::backends::bind
