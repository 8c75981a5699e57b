// SPDX-License-Identifier: Apache-2.0
// The passes that only the CPU backend needs.
#pragma once

#include <span>

#include "passes/passes.h"

namespace ridge::backends::cpu {

RIDGE_PASSES(RIDGE_NO_PASS, RIDGE_DECLARE_PASS, RIDGE_NO_PASS)

std::span<const passes::Pass* const> passes();

}  // namespace ridge::backends::cpu
