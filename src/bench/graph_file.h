// SPDX-License-Identifier: Apache-2.0
// Reads a graph in the text form as a trial.
#pragma once

#include <string>

#include "bench/graph_trial.h"

namespace ridge::bench {

// Ids are filled below the extent that they index. Throws bad-file Errors that name the file.
TrialGraph read_graph(const std::string& path);

}  // namespace ridge::bench
