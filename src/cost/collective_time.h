// SPDX-License-Identifier: Apache-2.0
// The time of a collective by the rates of the link between its ranks.
#pragma once

#include "cost/predict.h"

namespace ridge::cost {

// The sums that a rank makes of what arrives are taken to be hidden by the link.
NodePrediction predict_collective(const CostedGraph& costed, size_t node, const Ceilings& ceilings);

}  // namespace ridge::cost
