// SPDX-License-Identifier: Apache-2.0
// Binding of loss_scale, whose first outputs share the bytes of its states.
#include "ops/loss_scale.h"

#include <utility>

#include "backends/bind/bindings.h"

namespace ridge::backends::bind {
namespace {

LossScale scale_call(const BindCall& call) {
  constexpr double kNormEpsilon = 1e-6;  // as in ops/loss_scale.cc
  return {call.inputs[0].as<const float>(),
          call.outputs[0].as<float>(),
          call.outputs[1].as<float>(),
          call.outputs[2].as<float>(),
          call.inputs[4].as<const float>(),
          call.outputs[3].as<float>(),
          call.outputs[4].as<float>(),
          call.outputs[5].as<float>(),
          call.attrs().integer("growth_interval"),
          call.attrs().real("max_norm"),
          kNormEpsilon,
          ops::kLeastLossScale,
          ops::kMostLossScale};
}

}  // namespace

Kernel loss_scale(Launcher<LossScale> launcher) {
  return {.op = "loss_scale", .bind = bind_one(std::move(launcher), scale_call)};
}

}  // namespace ridge::backends::bind
