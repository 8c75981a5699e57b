// SPDX-License-Identifier: Apache-2.0
// The number of scores that flash attention's tiles compute, for the counts.
#pragma once

#include "plan/target.h"

namespace ridge::backends::cuda {

plan::FlashScores flash_scores(const Call& attention, bool tf32);

}  // namespace ridge::backends::cuda
