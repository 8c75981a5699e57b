// SPDX-License-Identifier: Apache-2.0
// Reads a graph in the text form as a trial, or takes one that was built.
#pragma once

#include <string>

#include "bench/graph_trial.h"

namespace ridge::bench {

// Ids are filled below the extent that they index. Throws bad-file Errors that name the file.
TrialGraph read_graph(const std::string& path);

// A graph of a person as a trial: its nodes have origins, and results that nothing reads are
// returned. Throws usage Errors for a graph that is empty or not legal.
TrialGraph trial_of(Graph graph);
// The same for the graph's outputs alone, if it has some: nodes that they do not need are left out.
TrialGraph trial_of_outputs(Graph graph);

}  // namespace ridge::bench
