// SPDX-License-Identifier: Apache-2.0
// Inference by stages: each rank of a pipeline has some of the layers, with their weights and KV
// cache. A run passes through all stages, and the last one sends its results around: every rank
// then has the sampled tokens and the output.
#pragma once

#include <cstdint>
#include <vector>

#include "graph/load_graph.h"
#include "models/model_file.h"

namespace ridge::serve {

struct ModelStage {
  int64_t index = 0, count = 1;
  // The first layer of each stage, and the number of layers; empty for the only stage.
  std::vector<int64_t> first_layers = {};

  bool is_whole() const { return count == 1; }
  bool is_last() const { return index + 1 == count; }
};

// One of `count` stages, which take nearly the same time for a token. Throws a usage Error if the
// model has fewer layers.
ModelStage model_stage(const models::ModelFile& file, int64_t index, int64_t count);

// The stage's part of a forward graph, before the passes, and of its load graph. It has all inputs,
// read or not: the host writes the same ones on every rank.
Graph cut_stage(const Graph& forward, const ModelStage& stage, LoadGraph& load);

// Adds to a stage's graph, after the passes, that the last stage sends its results from stage to
// stage. `forward` is the graph of the whole model, whose output may get another type here: results
// travel in fp32.
void share_results(Graph& graph, const Graph& forward, const ModelStage& stage);

}  // namespace ridge::serve
