// SPDX-License-Identifier: Apache-2.0
// Tests of ranks that fail: each fault once, in turn under mpirun and under our own launcher;
// rank_faults_slow_test.cc has each under both.
#include "apps/rank_fault_case.h"

namespace ridge::apps {
namespace {

using RankFaultTest = RankFaultCase;

TEST_F(RankFaultTest, EndTheRunAndNameTheRank) {
  bool by_mpirun = true;
  for (const RankFault& each : kRankFaults) {
    expect_ends(each, by_mpirun);
    by_mpirun = !by_mpirun;
  }
}

TEST_F(RankFaultTest, NameTheRankWithTheFirstNan) { expect_ends(kNan, false); }

TEST_F(RankFaultTest, EndTheRunWhenTheNetworkIsCut) {
  if (!may_cut_network()) GTEST_SKIP() << "this machine permits no network namespaces";
  expect_ends(kCutNetwork, true);
}

TEST_F(RankFaultTest, NameTheRankThatSharesAModel) {
  layout_ = "--tensor-parallel";
  expect_ends(kStoppedInModel, false);
}

// Ctrl-C on any rank, and on Ridge itself, ends all after the step, saved.
TEST_F(RankFaultTest, CtrlCEndsAllAfterTheStep) {
  for (const int rank : {1, -1}) {
    copy("d0", "c");
    const pid_t child = start(ranks("c", 1000000, {"--resume"}), limits());
    while (!std::filesystem::exists(folder_ / "c/step-00000008")) ::usleep(1000);
    for (const pid_t each : rank < 0 ? std::vector<pid_t>{child} : ranks_alive(rank))
      ::kill(each, SIGINT);
    const Output output = finish(child);
    EXPECT_NE(output.err.find("To go on, run: "), std::string::npos) << output.err;
    EXPECT_TRUE(ranks_alive().empty());
  }
}

// An error that all ranks have is one line.
TEST_F(RankFaultTest, SayOnceWhatAllFailWith) {
  const Output output = run(ranks("c", 6, {"--numerics", "-1"}), limits());
  EXPECT_EQ(output.code, 2);
  const std::string line = "ridge: ";
  size_t lines = 0;
  for (size_t at = 0; (at = output.err.find(line, at)) != std::string::npos; ++at) ++lines;
  EXPECT_EQ(lines, 1u) << output.err;
}

}  // namespace
}  // namespace ridge::apps
