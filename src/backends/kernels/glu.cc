// SPDX-License-Identifier: Apache-2.0
// Reads the activation of a glu kernel.
#include "backends/kernels/glu.h"

#include "base/error.h"

namespace ridge::backends {

GluActivation glu_activation(std::string_view name) {
  if (name == "silu") return GluActivation::kSilu;
  if (name == "gelu_tanh") return GluActivation::kGeluTanh;
  throw InternalError(fmt::format("no glu kernel computes the activation '{}'", name));
}

}  // namespace ridge::backends
