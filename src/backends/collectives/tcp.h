// SPDX-License-Identifier: Apache-2.0
// Ranks that reach each other by TCP alone: those that torchrun or Ridge itself started. The first
// rank listens and passes on what the others send. For small messages, such as those by which
// GPUs find each other; their tensors travel by NCCL.
#pragma once

#include <memory>
#include <string>

#include "backends/collectives/communicator.h"

namespace ridge::backends {

struct TcpOptions {
  std::string address;  // the first rank listens there: a name or a number
  int port = 0;
  int rank = 0, ranks = 1;
  double timeout_s = 60;  // until a rank that takes no part in an exchange ends the run
  double join_s = 0;      // until all must have joined; 0: timeout_s
};

// Joins the other ranks. Throws a run-time Error if one does not come in time.
std::unique_ptr<Communicator> join_tcp(const TcpOptions& options);
// The same, for ranks that divide themselves. The first rank of each group listens at a free port
// of its own, where the others of its group reach it.
std::unique_ptr<RankWorld> join_tcp_world(const TcpOptions& options);

}  // namespace ridge::backends
