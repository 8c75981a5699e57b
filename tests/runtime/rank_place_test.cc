// SPDX-License-Identifier: Apache-2.0
// Tests of what launchers say in the environment, and of the processors that ranks divide.
#include "runtime/rank_place.h"

#include <gtest/gtest.h>

#include <map>
#include <string>

#include "base/error.h"
#include "runtime/ranks.h"

namespace ridge::runtime {
namespace {

using Variables = std::map<std::string, std::string>;

RankPlace find(const Variables& set) {
  return find_rank([&](const char* name) {
    const auto found = set.find(name);
    return found == set.end() ? nullptr : found->second.c_str();
  });
}

void expect_error(const Variables& set, const std::string& part) {
  try {
    find(set);
    ADD_FAILURE() << "no error with " << part;
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kUsage);
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

const Variables kMpirun{{"OMPI_COMM_WORLD_RANK", "3"},
                        {"OMPI_COMM_WORLD_SIZE", "4"},
                        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
                        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"}};
const Variables kTorchrun{{"RANK", "3"},
                          {"WORLD_SIZE", "4"},
                          {"LOCAL_RANK", "1"},
                          {"LOCAL_WORLD_SIZE", "2"},
                          {"MASTER_ADDR", "a"},
                          {"MASTER_PORT", "29500"},
                          {"TORCHELASTIC_RUN_ID", "none"}};
const Variables kSrun{{"SLURM_STEP_ID", "0"},
                      {"SLURM_PROCID", "3"},
                      {"SLURM_STEP_NUM_TASKS", "4"},
                      {"SLURM_LOCALID", "1"},
                      {"SLURM_STEP_TASKS_PER_NODE", "2(x2)"}};

TEST(RankPlace, ReadsEachLauncher) {
  EXPECT_EQ(find({}).ranks, 1);
  EXPECT_EQ(find({}).launcher, Launcher::kNone);
  for (const auto& [set, launcher] :
       {std::pair(kMpirun, Launcher::kMpirun), std::pair(kTorchrun, Launcher::kTorchrun),
        std::pair(kSrun, Launcher::kSrun)}) {
    const RankPlace place = find(set);
    EXPECT_EQ(place.launcher, launcher);
    EXPECT_EQ(place.rank, 3);
    EXPECT_EQ(place.ranks, 4);
    EXPECT_EQ(place.local_rank, 1);
    EXPECT_EQ(place.local_ranks, 2);
  }
}

TEST(RankPlace, ReadsWhereTheFirstRankListens) {
  EXPECT_EQ(find(kTorchrun).address, "a");
  EXPECT_EQ(find(kTorchrun).port, 29500);
  Variables agent = kTorchrun;
  agent["TORCHELASTIC_USE_AGENT_STORE"] = "True";
  EXPECT_EQ(find(agent).port, 29501) << "torchrun itself listens at MASTER_PORT";
  agent.erase("MASTER_ADDR");
  expect_error(agent, "MASTER_ADDR");
  for (const char* port : {"0", "65536", "70000", "x"}) {
    Variables set = kTorchrun;
    set["MASTER_PORT"] = port;
    expect_error(set, "MASTER_PORT");
  }
}

// A batch script is one process, though Slurm numbers it.
TEST(RankPlace, TakesABatchScriptForOneProcess) {
  EXPECT_EQ(find({{"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "8"}}).ranks, 1);
}

TEST(RankPlace, RefusesContradictions) {
  Variables both = kMpirun;
  both.insert(kTorchrun.begin(), kTorchrun.end());
  EXPECT_EQ(find(both).launcher, Launcher::kMpirun);
  both["RANK"] = "2";
  expect_error(both, "mpirun says rank 3 of 4, torchrun says rank 2 of 4");
  // mpirun's processes inherit the variables of the step that started mpirun.
  Variables inherited = kSrun;
  inherited.insert(kMpirun.begin(), kMpirun.end());
  inherited["SLURM_PROCID"] = "0";
  EXPECT_EQ(find(inherited).launcher, Launcher::kMpirun);
}

TEST(RankPlace, RefusesWhatIsNoPlace) {
  for (const auto& [name, value] :
       {std::pair("OMPI_COMM_WORLD_RANK", "4"), std::pair("OMPI_COMM_WORLD_RANK", "-1"),
        std::pair("OMPI_COMM_WORLD_RANK", "one"), std::pair("OMPI_COMM_WORLD_RANK", ""),
        std::pair("OMPI_COMM_WORLD_SIZE", "0"), std::pair("OMPI_COMM_WORLD_SIZE", "99999999999"),
        std::pair("OMPI_COMM_WORLD_LOCAL_RANK", "2"),
        std::pair("OMPI_COMM_WORLD_LOCAL_SIZE", "5")}) {
    Variables set = kMpirun;
    set[name] = value;
    expect_error(set, "[ranks]");
  }
  Variables incomplete = kTorchrun;
  incomplete.erase("WORLD_SIZE");
  expect_error(incomplete, "WORLD_SIZE");
}

TEST(ChooseGpus, ByTheirNumbersAmongTheVisible) {
  const std::vector<std::string> visible = {"4", "5", "GPU-7"};
  EXPECT_EQ(choose_gpus("0,2", visible), (std::vector<std::string>{"4", "GPU-7"}));
  EXPECT_EQ(choose_gpus("1", visible), (std::vector<std::string>{"5"}));
  for (const char* list : {"3", "0,", "", "-1", "a", "0,0", "1x", "99999999999999999999"})
    EXPECT_THROW(choose_gpus(list, visible), Error) << list;
  EXPECT_THROW(choose_gpus("0", {}), Error);
}

std::vector<int> own(const std::vector<HostRank>& ranks, size_t rank) {
  return own_processors(ranks, rank);
}

TEST(OwnProcessors, AreDividedAmongRanksThatShareThem) {
  const HostRank four{"a", {0, 1, 2, 3}};
  EXPECT_EQ(own({four}, 0), four.processors);
  EXPECT_EQ(own({four, four}, 0), (std::vector<int>{0, 1}));
  EXPECT_EQ(own({four, four}, 1), (std::vector<int>{2, 3}));
  EXPECT_EQ(own({four, four, four}, 2), (std::vector<int>{2, 3}));
  EXPECT_EQ(own({four, four, four}, 0), (std::vector<int>{0}));
}

TEST(OwnProcessors, StayWhereTheLauncherDividedThem) {
  EXPECT_EQ(own({{"a", {0, 1}}, {"a", {2, 3}}}, 1), (std::vector<int>{2, 3}));
  // Ranks of other hosts share nothing.
  EXPECT_EQ(own({{"a", {0, 1}}, {"b", {0, 1}}}, 1), (std::vector<int>{0, 1}));
}

TEST(OwnProcessors, AreSharedIfThereAreTooFew) {
  const HostRank two{"a", {4, 7}};
  EXPECT_EQ(own({two, two, two}, 0), (std::vector<int>{4}));
  EXPECT_EQ(own({two, two, two}, 1), (std::vector<int>{7}));
  EXPECT_EQ(own({two, two, two}, 2), (std::vector<int>{4}));
}

}  // namespace
}  // namespace ridge::runtime
