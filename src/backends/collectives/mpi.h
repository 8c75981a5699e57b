// SPDX-License-Identifier: Apache-2.0
// Ranks on CPUs: the processes that mpirun or srun started, by an MPI library that is opened at run
// time. A process that runs alone needs none.
#pragma once

#include <memory>
#include <string>

#include "backends/collectives/communicator.h"

namespace ridge::backends {

struct MpiOptions {
  // The library; empty: libmpi.so.40, the one of Open MPI 4 and 5.
  std::string library;
  double timeout_s = 60;  // a rank that takes no part in a collective ends the run after it
};

// Starts MPI, which ends with the world. Throws a run-time Error if there is no library, or if this
// program was built without MPI's header.
std::unique_ptr<RankWorld> join_mpi(const MpiOptions& options);

}  // namespace ridge::backends
