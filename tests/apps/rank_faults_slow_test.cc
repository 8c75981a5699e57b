// SPDX-License-Identifier: Apache-2.0
// Tests of ranks that fail, 20 times each.
#include "apps/rank_fault_case.h"

namespace ridge::apps {
namespace {

using RankFaultSlowTest = RankFaultCase;

TEST_F(RankFaultSlowTest, EndTheRunAndNameTheRankEachTime) {
  for (int trial = 0; trial < 20; ++trial)
    for (const RankFault& each : kRankFaults)
      for (const bool by_mpirun : {true, false}) expect_ends(each, by_mpirun);
}

TEST_F(RankFaultSlowTest, NameTheRankWithTheFirstNanEachTime) {
  for (int trial = 0; trial < 20; ++trial)
    for (const bool by_mpirun : {true, false}) expect_ends(kNan, by_mpirun);
}

TEST_F(RankFaultSlowTest, EndTheRunWhenTheNetworkIsCutEachTime) {
  if (!may_cut_network()) GTEST_SKIP() << "this machine permits no network namespaces";
  for (int trial = 0; trial < 20; ++trial)
    for (const bool by_mpirun : {true, false}) expect_ends(kCutNetwork, by_mpirun);
}

TEST_F(RankFaultSlowTest, NameTheRankThatSharesAModelUnderBothLaunchers) {
  layout_ = "--tensor-parallel";
  for (const bool by_mpirun : {true, false}) expect_ends(kStoppedInModel, by_mpirun);
}

}  // namespace
}  // namespace ridge::apps
