// SPDX-License-Identifier: Apache-2.0
// Which of several processes this one is, as its launcher says in the environment.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::runtime {

enum class Launcher {
  kNone,      // one process alone
  kMpirun,    // Open MPI: OMPI_COMM_WORLD_RANK and others
  kSrun,      // Slurm: SLURM_PROCID and others of a job step
  kTorchrun,  // RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR, MASTER_PORT
};
std::string_view name(Launcher launcher);

struct RankPlace {
  Launcher launcher = Launcher::kNone;
  int rank = 0, ranks = 1;
  int local_rank = 0, local_ranks = 1;  // on this host
  std::string address = {};             // where the first rank of torchrun listens
  int port = 0;
};

// Returns the value of a variable, or null.
using Environment = std::function<const char*(const char* name)>;

// Throws usage Errors: a launcher's variables that are incomplete, no numbers, or out of range, and
// two launchers that contradict each other. mpirun inside a job of Slurm counts as mpirun.
RankPlace find_rank(const Environment& environment);

// The GPUs that this process may use: those of CUDA_VISIBLE_DEVICES, or the first `count`.
std::vector<std::string> visible_gpus(const Environment& environment, int count);
// Makes this one of the GPUs the first that the process sees, with the others behind it. CUDA reads
// the variable when it is first asked anything.
void put_gpu_first(std::vector<std::string> gpus, size_t own);

// Those of the visible GPUs that a list of their numbers names: "0,2" of {"4", "5", "6"} is {"4",
// "6"}. Throws a usage Error: no number, one that is not there, or one twice.
std::vector<std::string> choose_gpus(std::string_view list, std::span<const std::string> visible);

}  // namespace ridge::runtime
