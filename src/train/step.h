// SPDX-License-Identifier: Apache-2.0
// Builds the graphs of one training step: forward, passes, gradient, optimizer, passes. `ridge
// plan` builds the same graphs on a target that runs nothing.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "backends/collectives/communicator.h"
#include "cost/ceilings.h"
#include "cost/pass_record.h"
#include "graph/load_graph.h"
#include "models/config.h"
#include "models/packing.h"
#include "passes/pipeline.h"
#include "passes/pipeline_schedule.h"
#include "train/optimizer.h"

namespace ridge::train {

// A rank's part of a training: its sequences of each batch of all ranks, and its part of the model.
struct RankShare {
  int64_t rank = 0, ranks = 1;                // each rank trains on its own sequences
  backends::Communicator* all = nullptr;      // reaches all ranks; null: none, or a plan
  int64_t tensor_rank = 0, tensor_ranks = 1;  // they share the model
  const backends::Groups* groups = nullptr;   // as `all`
  int64_t stage = 0, stages = 1;              // each has some of the layers

  bool is_first() const { return rank == 0 && tensor_rank == 0 && stage == 0; }
};

// How the stages of a pipeline work on the micro-batches of a step.
struct PipelineOptions {
  passes::PipelineOrder order = passes::PipelineOrder::kOneForwardOneBackward;
  int64_t chunks = 1;  // parts of the model that each stage has
};

struct StepOptions {
  int64_t batch_size = 8;  // sequences per micro-batch, of each rank
  RankShare shard;
  PipelineOptions pipeline;
  int64_t sequence = 128;
  models::Packing packing = models::Packing::kNone;
  int64_t micro_batches = 1;  // gradients are summed over these before the update
  OptimizerOptions optimizer;
  // Patterns of parameters (base/name_pattern.h) that have no gradient, no moments and no update.
  std::vector<std::string> frozen;
  passes::LoraOptions lora;  // the pass `lora` has them
  LossScaling loss_scaling;  // the pass `autocast_f16` has it
  std::string base_model;    // an adapter's configuration names it as its base
  // Whether the update is a graph of its own also for one micro-batch, so that it can be left out.
  bool separates_update = false;
  bool evaluates = false;  // whether a graph without update is built too, for validation
};

// The graphs of a step follow from these.
struct StepSetup {
  models::ModelConfig config;
  StepOptions step;
  passes::Selection selection{"baseline", ""};
};

struct StepGraph {
  std::string name;  // "step", or "accumulate" and "update"
  // Outputs: the loss; where gradients are clipped, their squared norm; with loss scaling, the
  // scale of the next step and the number of steps skipped so far.
  Graph graph;
  int64_t repeat = 1;
  bool has_loss = true;
  bool has_norm = false;
  bool has_scale = false;
  int64_t micro_batches = 1;  // in each run
};

struct TrainingStep {
  std::vector<StepGraph> graphs;
  std::optional<Graph> discard;     // clears the gradients, if the update is separate
  std::optional<Graph> evaluation;  // a micro-batch without update; outputs[0] is the loss
  LoadGraph load;
  bool has_adapters = false;  // whether adapters are trained, and nothing else
  std::vector<cost::PassRecord> passes;
};

// Throws usage Errors: a pattern of `frozen` that matches no parameter, patterns that leave nothing
// to train, two types to compute in. Records the passes only if ceilings are given: each record
// takes a plan of the graph.
TrainingStep build_step(const StepSetup& setup,
                        const passes::PassTarget& target,
                        const cost::Ceilings* ceilings = nullptr);

}  // namespace ridge::train
