// SPDX-License-Identifier: Apache-2.0
// What flash attention's tiles compute, for the counts. Not the binding.
#pragma once

#include "plan/target.h"

namespace ridge::backends::cuda {

plan::FlashScores flash_scores(const Call& attention, bool tf32);

}  // namespace ridge::backends::cuda
