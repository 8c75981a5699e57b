// SPDX-License-Identifier: Apache-2.0
// Defines the GPU's rows of the list in src/passes/passes.h.
#include "backends/cuda/passes/passes.h"

#include <array>

namespace ridge::backends::cuda {

RIDGE_PASSES(RIDGE_NO_PASS, RIDGE_NO_PASS, RIDGE_DEFINE_PASS)

std::span<const passes::Pass* const> passes() {
  static const std::array list = {RIDGE_PASSES(RIDGE_NO_PASS, RIDGE_NO_PASS, RIDGE_PASS_ADDRESS)};
  return list;
}

}  // namespace ridge::backends::cuda
