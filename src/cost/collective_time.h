// SPDX-License-Identifier: Apache-2.0
// The time of a collective by the rates of the link between its ranks.
#pragma once

#include "cost/cost.h"
#include "cost/predict.h"

namespace ridge::cost {

// The sums that a rank makes of what arrives are taken to be hidden by the link.
NodePrediction predict_collective(const Node& node, const NodeCost& cost, const Ceilings& ceilings);

}  // namespace ridge::cost
