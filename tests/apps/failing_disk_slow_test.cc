// SPDX-License-Identifier: Apache-2.0
// Each system call of a save fails once, in each way, and so does the program between any two of
// them.
#include "apps/checkpoint_case.h"

namespace ridge::apps {
namespace {

class EachCallTest : public CheckpointCase, public testing::WithParamInterface<const char*> {};

TEST_P(EachCallTest, LosesNothing) {
  copy_checkpoints();
  ASSERT_EQ(resume(calls("log")).code, 0);
  const int count = static_cast<int>(logged("log").size());
  ASSERT_GT(count, 30);
  for (int n = 1; n <= count; ++n) expect_survives(n, GetParam());
  fmt::print("{} calls\n", count);
}

INSTANTIATE_TEST_SUITE_P(Failures, EachCallTest, testing::Values("EIO", "ENOSPC", "SHORT", "KILL"));

}  // namespace
}  // namespace ridge::apps
