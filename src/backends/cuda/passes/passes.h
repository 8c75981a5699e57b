// SPDX-License-Identifier: Apache-2.0
// The passes that only GPUs need. They are compiled without CUDA too, since a plan for a GPU runs
// them.
#pragma once

#include <span>

#include "passes/passes.h"

namespace ridge::backends::cuda {

RIDGE_PASSES(RIDGE_NO_PASS, RIDGE_NO_PASS, RIDGE_DECLARE_PASS)

std::span<const passes::Pass* const> passes();

}  // namespace ridge::backends::cuda
