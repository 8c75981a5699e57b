// SPDX-License-Identifier: Apache-2.0
// Reads the variables of each launcher by a table.
#include "runtime/rank_place.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/printable.h"
#include "base/split.h"

namespace ridge::runtime {
namespace {

struct Variables {
  Launcher launcher;
  const char* present;  // it is this launcher if this one is set
  const char *rank, *ranks, *local_rank, *local_ranks;
};
// Schedulers of clusters set RANK and WORLD_SIZE too, but only torchrun sets LOCAL_RANK. A batch
// script of Slurm has SLURM_PROCID too, but SLURM_STEP_ID only what srun starts.
constexpr Variables kVariables[] = {
    {Launcher::kMpirun, "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE",
     "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
    {Launcher::kTorchrun, "LOCAL_RANK", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    {Launcher::kSrun, "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID",
     "SLURM_STEP_TASKS_PER_NODE"},
};

constexpr int kMostRanks = 1 << 20;

// "4", or "4(x2)" of Slurm's lists: the tasks of the first node.
int read(const Environment& environment, const Variables& of, const char* variable, int least) {
  const char* text = environment(variable);
  if (text == nullptr)
    throw usage_error(
        "[ranks] expected {} in the environment of a process that {} starts, got none", variable,
        name(of.launcher));
  const std::string_view digits(text);
  int number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool is_list = of.launcher == Launcher::kSrun && end != digits.data() + digits.size();
  if (error != std::errc() || (end != digits.data() + digits.size() && !is_list) ||
      number < least || number > kMostRanks)
    throw usage_error("[ranks] expected a number from {} in {}, got {}", least, variable,
                      printable(digits));
  return number;
}

void expect_below(const char* variable, int rank, const char* of, int ranks) {
  if (rank >= ranks)
    throw usage_error("[ranks] expected {} below {}, got {} of {}", variable, of, rank, ranks);
}

RankPlace read_place(const Environment& environment, const Variables& v) {
  RankPlace place{v.launcher, read(environment, v, v.rank, 0), read(environment, v, v.ranks, 1),
                  read(environment, v, v.local_rank, 0), read(environment, v, v.local_ranks, 1)};
  expect_below(v.rank, place.rank, v.ranks, place.ranks);
  expect_below(v.local_rank, place.local_rank, v.local_ranks, place.local_ranks);
  if (place.local_ranks > place.ranks)
    throw usage_error("[ranks] expected at most {} ranks on a host, got {}={}", place.ranks,
                      v.local_ranks, place.local_ranks);
  return place;
}

// Where torchrun's own store listens at MASTER_PORT, the ranks use the next port.
void read_address(const Environment& environment, const Variables& v, RankPlace& place) {
  const char* address = environment("MASTER_ADDR");
  if (address == nullptr || *address == 0)
    throw usage_error("[ranks] expected MASTER_ADDR next to {}, got none", v.rank);
  place.address = address;
  place.port = read(environment, v, "MASTER_PORT", 1);
  const char* store = environment("TORCHELASTIC_USE_AGENT_STORE");
  if (store != nullptr && std::string_view(store) == "True") ++place.port;
  constexpr int kMostPort = 65535;
  if (place.port > kMostPort)
    throw usage_error("[ranks] expected MASTER_PORT up to {}, got {}", kMostPort, place.port);
}

}  // namespace

std::string_view name(Launcher launcher) {
  constexpr std::string_view kNames[] = {"no launcher", "mpirun", "srun", "torchrun"};
  return kNames[static_cast<size_t>(launcher)];
}

std::vector<std::string> visible_gpus(const Environment& environment, int count) {
  if (const char* given = environment("CUDA_VISIBLE_DEVICES")) return split(given);
  std::vector<std::string> visible;
  for (int i = 0; i < count; ++i) visible.push_back(std::to_string(i));
  return visible;
}

void put_gpu_first(std::vector<std::string> gpus, size_t own) {
  std::swap(gpus[0], gpus[own]);
  ::setenv("CUDA_VISIBLE_DEVICES", fmt::format("{}", fmt::join(gpus, ",")).c_str(), 1);
}

std::vector<std::string> choose_gpus(std::string_view list, std::span<const std::string> visible) {
  std::vector<std::string> chosen;
  for (const std::string& word : split(list)) {
    size_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc() || end != word.data() + word.size() || number >= visible.size())
      throw usage_error("[gpus] expected numbers below {}, the number of GPUs here, got {}",
                        visible.size(), printable(list));
    if (std::ranges::find(chosen, visible[number]) != chosen.end())
      throw usage_error("[gpus] expected each GPU once, got {}", printable(list));
    chosen.push_back(visible[number]);
  }
  return chosen;
}

RankPlace find_rank(const Environment& environment) {
  std::optional<RankPlace> found;
  for (const Variables& each : kVariables) {
    if (environment(each.present) == nullptr) continue;
    RankPlace place = read_place(environment, each);
    if (each.launcher == Launcher::kTorchrun) read_address(environment, each, place);
    if (!found) {
      found = place;
      continue;
    }
    // mpirun starts its processes through srun's, which leave their own variables behind.
    if (each.launcher == Launcher::kSrun) continue;
    if (place.rank != found->rank || place.ranks != found->ranks)
      throw usage_error(
          "[ranks] {} says rank {} of {}, {} says rank {} of {}; expected one launcher",
          name(found->launcher), found->rank, found->ranks, name(place.launcher), place.rank,
          place.ranks);
  }
  return found.value_or(RankPlace());
}

}  // namespace ridge::runtime
