// SPDX-License-Identifier: Apache-2.0
// Options for several processes that work as one: how many, and how they are started. Not a
// subcommand.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/subcommand.h"
#include "backends/machine.h"
#include "runtime/ranks.h"
#include "train/training_choice.h"

namespace ridge::apps {

// 0 stands for as many as the launcher started, divided by the other number.
struct RankOptions : train::RankSharing {
  int64_t data_parallel = 1, tensor_parallel = 1, pipeline_parallel = 1;
  std::optional<double> timeout_s = {};
  std::string gpus = {};  // "0,2": those that ranks use; empty: the first ones
  std::shared_ptr<runtime::Ranks> joined = nullptr;  // null: this process runs alone

  bool any(bool here) const { return joined == nullptr ? here : joined->all().any(here); }
  bool is_first() const { return joined == nullptr || joined->is_first(); }
  // The first rank's text, for what only it can read.
  std::string of_first(const std::string& own) const {
    return joined == nullptr ? own : joined->all().gather(own)[0];
  }
};

// --data-parallel, --tensor-parallel, --pipeline-parallel, --zero, --gpus, --collective-timeout
void add_rank_options(Command app, RankOptions& options);
// --tensor-parallel, --gpus, --collective-timeout
void add_tensor_options(Command app, RankOptions& options);
// The same and --pipeline-parallel
void add_model_rank_options(Command app, RankOptions& options);

// --gpus
void add_gpus_option(Command app, RankOptions& options);

// Runs `body`, which returns an exit code, as one of the ranks if there are several: an Error then
// ends the process here, and is printed once where all ranks have it. If the run fails, the ranks
// leave their last collectives in `folder`, unless it is empty.
int run_as_rank(RankOptions& options, const std::string& folder, const std::function<int()>& body);

// --pipeline-parallel and how its stages work
void add_pipeline_options(Command app, RankOptions& options);
// Starts this program again as so many ranks, and returns their exit code. Throws usage Errors.
int start_ranks(int64_t ranks, const RankOptions& options, bool on_gpu);

// Joins the other processes that mpirun or srun started, and tells the machine's options. If the
// options ask for several processes and none was started, starts this program again under mpirun
// and does not return. All ranks but the first print nothing but errors.
void join_ranks(RankOptions& options, backends::MachineOptions& machine);

}  // namespace ridge::apps
