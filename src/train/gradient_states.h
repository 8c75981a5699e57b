// SPDX-License-Identifier: Apache-2.0
// The states in which gradients of several micro-batches add up: the nodes that add to them, and
// the graphs of the update that reads and clears them.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "graph/builder.h"
#include "graph/load_graph.h"
#include "train/optimizer.h"
#include "train/step.h"

namespace ridge::train {

// The trained parameters of a graph and their gradients, in one order.
struct TrainedValues {
  std::vector<ValueId> parameters, gradients;
  SharedGradients shared;
};

// Whether it is a parameter and no view of one.
inline bool is_parameter(const Value& value) {
  return value.storage == Storage::kParameter && value.producer == kNoNode;
}
// The parameters that are not frozen.
std::vector<ValueId> trained_parameters(const Graph& graph);

// Counts the ranks, of those that share a model and of its stages, that have each parameter. The
// first and the last stage both have the parameters `tied`.
SharedGradients shared_gradients(const Graph& graph,
                                 const LoadGraph& load,
                                 std::span<const ValueId> parameters,
                                 const RankShare& share,
                                 const std::set<std::string>& tied = {});

// Adds each gradient to a state "<name>.gradient", which the update reads and clears.
void accumulate_gradients(Builder& builder, const TrainedValues& trained);

// Appends the update and its outputs, and notes which there are.
void append_update(Builder& builder,
                   const StepOptions& options,
                   const TrainedValues& trained,
                   const LossScaling* scaling,
                   StepGraph& step);

// The update by the states of a step's graph. The stages that have tied parameters add up their
// gradients first.
StepGraph build_update(const Graph& step,
                       const OpTable& ops,
                       const StepOptions& options,
                       const LossScaling* scaling,
                       const SharedGradients& shared);

// Clears the states.
Graph build_discard(const Graph& step, const OpTable& ops);

}  // namespace ridge::train
