// SPDX-License-Identifier: Apache-2.0
// Defines the CPU's rows of the list in src/passes/passes.h.
#include "backends/cpu/passes/passes.h"

#include <array>

namespace ridge::backends::cpu {

RIDGE_PASSES(RIDGE_NO_PASS, RIDGE_DEFINE_PASS, RIDGE_NO_PASS)

std::span<const passes::Pass* const> passes() {
  static const std::array list = {RIDGE_PASSES(RIDGE_NO_PASS, RIDGE_PASS_ADDRESS, RIDGE_NO_PASS)};
  return list;
}

}  // namespace ridge::backends::cpu
