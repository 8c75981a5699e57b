// SPDX-License-Identifier: Apache-2.0
// The order in which the ranks of a pipeline work on the parts of a model and on the micro-batches
// of a step, and the graph of a whole step in that order: its plan has the memory of all
// micro-batches that are under way.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "graph/builder.h"

namespace ridge::passes {

// 1F1B (Narayanan et al. 2019, PipeDream-flush): a stage begins as many micro-batches as stages
// follow it, then runs a backward pass after each forward pass. Interleaved (Narayanan et al. 2021,
// Megatron-LM): the same with several parts of the model on each stage, so that it waits for
// shorter ones. Zero bubble (Qi et al. 2023, ZB-H1): gradients of weights are computed while a
// stage would wait, since no other stage needs them.
enum class PipelineOrder : uint8_t { kOneForwardOneBackward, kInterleaved, kZeroBubble };
// "1f1b", "interleaved" or "zero-bubble". Throws a usage Error for another text.
PipelineOrder pipeline_order(std::string_view text);

struct PipelineShape {
  int64_t stages = 1, chunks = 1;  // each stage has so many parts: part i is of stage i % stages
  int64_t micro_batches = 1;
  PipelineOrder order = PipelineOrder::kOneForwardOneBackward;
  bool trains = true;  // else there are forward passes alone

  int64_t parts() const { return stages * chunks; }
};

struct PipelineTask {
  enum class Kind : uint8_t {
    kReceiveHidden,
    kForward,
    kSendHidden,
    kReceiveGradient,
    kBackward,  // up to the gradient that is sent; the rest, too, unless it is put off
    kSendGradient,
    kWeights,  // the rest of a backward pass
  };
  Kind kind = Kind::kForward;
  int64_t chunk = 0, micro_batch = 0;
  bool operator==(const PipelineTask&) const = default;
};

// The tasks of each stage, from a simulation in which forward passes take one time unit and
// backward passes two. Transfers are in one order for all stages, that of their times, so that no
// two stages wait for each other even if a send ends when it is received.
std::vector<std::vector<PipelineTask>> pipeline_tasks(const PipelineShape& shape);

// Joins the graphs of a stage's parts, of one micro-batch each, to one graph that runs the tasks of
// all micro-batches. Inputs are those of all micro-batches, one after the other. Its output is the
// mean loss, which all stages get. A part's gradients are added to states. An evaluation runs the
// first of `inputs` micro-batches.
Graph join_parts(std::span<const Graph> parts,
                 const OpTable& ops,
                 const PipelineShape& shape,
                 int64_t stage,
                 int64_t inputs);

}  // namespace ridge::passes
