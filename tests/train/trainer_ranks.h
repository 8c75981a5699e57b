// SPDX-License-Identifier: Apache-2.0
// Several ranks of one training, each in a thread of its own, that reach each other by TCP.
#pragma once

#include <fmt/format.h>

#include <string>
#include <vector>

#include "backends/ranks_in_threads.h"
#include "plan/rank_layout.h"
#include "train/small_run.h"

namespace ridge::train {

// A rank with its groups, a backend and a trainer.
struct TrainerRank {
  int rank = 0;
  std::unique_ptr<backends::Communicator> all;
  backends::Groups groups;
  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<Trainer> trainer;
};

// Each rank joins the groups of the layout. Groups of one rank are missing.
inline void join_groups(const plan::RankLayout& layout,
                        int rank,
                        backends::RankWorld& world,
                        TrainerRank& made) {
  made.rank = rank;
  made.all = world.split(0);
  const auto join = [&](const std::string& name, int64_t size) {
    if (size > 1)
      made.groups[name] = world.split(static_cast<int>(layout.members(name, size, rank)[0]));
  };
  join("data", layout.data), join("tensor", layout.tensor);
  join(plan::kPipelineGroup, layout.pipeline);
  if (layout.pipeline == 2) join(plan::stage_pair(0, 1, 2), 2);
}

inline RankShare share_of(const plan::RankLayout& layout, const TrainerRank& rank) {
  RankShare share;
  share.rank = layout.data_rank(rank.rank), share.ranks = layout.data;
  share.tensor_rank = layout.tensor_rank(rank.rank), share.tensor_ranks = layout.tensor;
  share.stage = layout.stage(rank.rank), share.stages = layout.pipeline;
  share.all = rank.all.get(), share.groups = &rank.groups;
  return share;
}

// Runs `act` on a trainer of each rank, on the CPU at the level "baseline". What one of them throws
// is a failure.
inline void run_trainers(const plan::RankLayout& layout,
                         const StepOptions& options,
                         const std::string& switches,
                         const std::function<void(TrainerRank&)>& act,
                         const models::ModelConfig& config = small_config()) {
  const std::vector<std::string> errors = backends::run_ranks_in_threads(
      static_cast<int>(layout.ranks()), [&](int rank, backends::RankWorld& world) {
        TrainerRank made;
        join_groups(layout, rank, world, made);
        backends::cpu::CpuOptions on_cpu;
        on_cpu.threads = 1, on_cpu.groups = &made.groups;
        made.backend = backends::cpu::make_cpu_backend(on_cpu);
        StepSetup setup{config, options, passes::Selection("baseline", switches)};
        setup.step.shard = share_of(layout, made);
        made.trainer = std::make_unique<Trainer>(setup, *made.backend);
        act(made);
      });
  for (const std::string& each : errors) EXPECT_EQ(each, "");
}

}  // namespace ridge::train
