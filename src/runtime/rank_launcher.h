// SPDX-License-Identifier: Apache-2.0
// Starts this program again, with the same arguments, as several ranks: on CPUs by mpirun, on GPUs
// as processes of this host that are told their places as torchrun tells them.
#pragma once

#include <cstdint>

namespace ridge::runtime {

// Ranks on CPUs that this host may be asked to start; more only keep it from all else.
inline constexpr int64_t kMostRanksOfACore = 16;
int64_t most_cpu_ranks();

// Runs the ranks by mpirun and returns its code, or 1 if a signal ended a rank. Ctrl-C and SIGTERM
// go to the ranks; mpirun would kill them after a second. Notes on stderr if the ranks share cores.
// Throws a run-time Error if mpirun is missing.
int run_mpirun(int64_t ranks);

// A port of this host that nobody uses now. Throws a run-time Error if there is none.
int free_port();

// Starts a process for each rank and waits until all have ended. Once one fails, the others have
// some seconds to say why they end, then they are killed; they end with this process too. Ctrl-C
// reaches them by itself, and SIGTERM and SIGHUP are passed on. Returns the code of the first that
// failed, 1 if a signal killed it, or 0.
int run_ranks(int64_t ranks);

}  // namespace ridge::runtime
