// SPDX-License-Identifier: Apache-2.0
// Pipeline parallel: the layers of a model are cut into parts, and each rank has one or several of
// them. A part receives the hidden states of the layers before it and sends its own on; in the
// backward pass gradients go the other way. pipeline_schedule.h puts the parts of a rank together.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "graph/builder.h"
#include "graph/load_graph.h"

namespace ridge::passes {

// One of the parts, in the order in which tokens pass them.
struct PipelinePart {
  int64_t index = 0, count = 1;
  int64_t stages = 1;  // part i is of stage i % stages

  int64_t stage() const { return index % stages; }
  bool is_last() const { return index + 1 == count; }
};

// The first layer of each part, and the number of layers behind them: a cut by which the largest
// predicted time of a part is smallest. Times are those of a device of a fixed ridge point, so that
// every rank cuts in the same places. Throws a usage Error if there are fewer layers than parts.
std::vector<int64_t> cut_layers(const Graph& forward, int64_t parts);

// Transfers in the ring of stages, in which the first one follows the last one. A received value is
// new, or a new version of `state`.
void send_to_next(Builder& builder, ValueId value, int64_t stage, int64_t stages);
ValueId receive_from_previous(Builder& builder,
                              const Type& type,
                              int64_t stage,
                              int64_t stages,
                              ValueId state = kNoValue);

// The forward graph of a part, with the parameters that it reads. `first_layers` is of cut_layers.
Graph cut_part(const Graph& forward,
               const OpTable& ops,
               const PipelinePart& part,
               std::span<const int64_t> first_layers);

// Keeps in the load graph the parameters that one of the parts has.
void keep_parameters(LoadGraph& load, std::span<const Graph> parts);

// As differentiate, for the graph of a part: the gradient of its hidden states is received, and
// that of what it received is sent. `seed` is the gradient of the loss, for the last part.
std::vector<ValueId> differentiate_part(Graph& graph,
                                        const OpTable& ops,
                                        std::span<const ValueId> parameters,
                                        const std::function<ValueId(Builder&)>& seed);

}  // namespace ridge::passes
