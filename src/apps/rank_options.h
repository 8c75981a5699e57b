// SPDX-License-Identifier: Apache-2.0
// Options for several processes that work as one: how many, and how they are started. Not a
// subcommand.
#pragma once

#include <cstdint>
#include <memory>

#include "apps/subcommand.h"
#include "backends/machine.h"
#include "runtime/ranks.h"

namespace ridge::apps {

struct RankOptions {
  int64_t data_parallel = 0;  // 0: as many as the launcher started
  double timeout_s = 60;
  std::shared_ptr<runtime::Ranks> joined = nullptr;  // null: this process runs alone

  bool is_first() const { return joined == nullptr || joined->is_first(); }
};

void add_rank_options(Command app, RankOptions& options);

// Joins the other processes that mpirun or srun started, and tells the machine's options. If the
// options ask for several processes and none was started, starts this program again under mpirun
// and does not return. All ranks but the first print nothing but errors.
void join_ranks(RankOptions& options, backends::MachineOptions& machine);

}  // namespace ridge::apps
