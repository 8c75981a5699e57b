// SPDX-License-Identifier: Apache-2.0
// The ranks of which this process of Python is one: those of a launcher, which all run the same
// script, or those that ridge.load starts for a model.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "backends/machine.h"
#include "python/keywords.h"
#include "runtime/ranks.h"
#include "train/training_choice.h"

namespace ridge::python {

using SharedRanks = std::shared_ptr<runtime::Ranks>;

// How many ranks the keyword arguments of a trainer ask for, and what they share.
struct RankKeywords {
  // Takes data_parallel, tensor_parallel, pipeline_parallel, and the names of RankSharing.
  explicit RankKeywords(Keywords& keywords);

  runtime::RankLayout layout;
  train::RankSharing sharing;
};

// Joins the processes that mpirun, srun or torchrun started, and tells the machine's options. The
// first call of a process joins; a later one returns the same ranks and must ask for the same
// layout. Returns null for a layout of one rank. Throws usage Errors: there is no launcher, or it
// has started another number.
SharedRanks join_launched(const runtime::RankLayout& layout, backends::MachineOptions& machine);

// Joins the ranks that share a model, as a launcher started them, or else as the first of ranks
// that it starts itself, which load the model with the same arguments.
SharedRanks join_for_model(int64_t ranks,
                           const std::string& path,
                           const nanobind::dict& given,
                           backends::MachineOptions& machine);

// Ends a rank that has followed the first one, and with it the script: raises SystemExit.
[[noreturn]] void end_follower();

}  // namespace ridge::python
