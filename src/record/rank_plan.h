// SPDX-License-Identifier: Apache-2.0
// Defines the plan of several ranks for the report writers: what they exchange in a step, what they
// compute and what they repeat. planning/ fills it; nothing runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/run_figures.h"

namespace ridge::record {

// A collective of a step; every rank has the same.
struct PlannedCollective {
  std::string op, graph, scope, phase, group;
  int64_t ranks = 0, tensors = 0, bytes = 0, sent_bytes = 0, repeat = 1;
  double predicted_ns = 0;  // 0: unknown
};

struct RankPlan {
  RunRecord record;  // the first rank has it; its list of nodes is empty
  int64_t ranks = 1;
  std::vector<PlannedCollective> collectives;
  // FLOPs of a step: those of the model for the sequences of all ranks, those that all ranks
  // execute, and those that one rank would execute for the same sequences.
  double model_flops = 0, executed_flops = 0, one_rank_flops = 0;

  int64_t stages = 1;
  // The predicted time of a pipeline's step, and the share of it for which stages wait for each
  // other, on average; 0: unknown.
  double step_ns = 0, bubble_share = 0;

  double repeated_flops() const { return executed_flops - one_rank_flops; }
  int64_t sent_bytes() const {
    int64_t sum = 0;
    for (const PlannedCollective& each : collectives) sum += each.repeat * each.sent_bytes;
    return sum;
  }
};

template <class See>
void figures(const See& see, const PlannedCollective& r) {
  see("op", r.op),
      see({"graph", "", "the program's name of it: step, accumulate, update"}, r.graph);
  see("scope", r.scope), see("phase", r.phase);
  see({"group", "",
       "the ranks that take part: data, tensor, pipeline, or pipeline.N of two stages"},
      r.group);
  see({"group_ranks", "", "their number"}, r.ranks);
  see({"tensors", "", "exchanged together"}, r.tensors);
  see({"bytes", "", "of the tensors"}, r.bytes);
  see(kSent, r.sent_bytes);
  see({"repeat", "", "runs of its graph in a step"}, r.repeat);
  see("predicted_ns", r.predicted_ns, Unknown::kNull);
}

template <class See>
void figures(const See& see, const RankPlan& r) {
  see("setting", r.record.setting),
      see({"rank_count", "", "ranks whose graphs were built"}, r.ranks);
  see({"stage_count", "", "stages of a pipeline; 1: none"}, r.stages);
  see("step_ns", r.step_ns, Unknown::kNull);
  see({"bubble_share", "", "of a step, that stages wait for each other on average"},
      r.bubble_share);
  see({"collectives", "",
       "of a step, the same on every rank of a stage; the first stage has these"},
      r.collectives);
  see({"sent_bytes", "", "in a step, by each rank"}, r.sent_bytes());
  see({"owned_bytes", "", "of each rank: the store and the arena"}, r.record.memory.owned_bytes);
  see({"model_flops", "FLOP", "of all ranks' sequences, forward and backward"}, r.model_flops);
  see({"executed_flops", "FLOP", "of all ranks"}, r.executed_flops);
  see({"repeated_flops", "FLOP", "executed beyond those of one rank with the same sequences"},
      r.repeated_flops());
}

}  // namespace ridge::record
