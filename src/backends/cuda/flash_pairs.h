// SPDX-License-Identifier: Apache-2.0
// What flash attention's tiles compute, for the counts. Not the binding.
#pragma once

#include "perf/target.h"

namespace ridge::backends::cuda {

perf::FlashScores flash_scores(const Call& attention, bool tf32);

}  // namespace ridge::backends::cuda
