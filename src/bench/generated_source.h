// SPDX-License-Identifier: Apache-2.0
// Shows the CUDA source of the kernels that Ridge generates for a graph. Needs no GPU and compiles
// nothing.
#pragma once

#include <string>

#include "bench/graph_trial.h"

namespace ridge::bench {

// The source of each generated kernel in the order of the graph after the passes of the setting,
// for dense operands, without what all of them begin with. Says so if the graph has none.
std::string generated_source(const TrialGraph& trial,
                             const TrialSetting& setting,
                             const passes::PassTarget& target);

}  // namespace ridge::bench
