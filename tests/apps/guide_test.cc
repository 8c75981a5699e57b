// SPDX-License-Identifier: Apache-2.0
// The commands of the guide to training work, with two steps in the place of many. Those that fine-tune a published model
// are left to the slow test.
#include "apps/guide_case.h"

namespace ridge::apps {
namespace {

using GuideTest = GuideCase;

TEST_F(GuideTest, EachCommandWorks) {
  if (!has_bible()) GTEST_SKIP() << "apt-get install bible-kjv";
  int commands = 0;
  for (const Block& each : blocks()) {
    if (!each.is_command || each.text.find("apt-get") != std::string::npos ||
        each.text.find("SmolLM2") != std::string::npos)
      continue;
    std::string text = std::regex_replace(each.text, std::regex("--steps [0-9]+"), "--steps 2");
    text = std::regex_replace(text, std::regex("--lr-warmup [0-9]+"), "--lr-warmup 1");
    text = std::regex_replace(text, std::regex("--val-batches [0-9]+"), "--val-batches 1");
    run_block(text);
    ++commands;
  }
  EXPECT_EQ(commands, 4);
  EXPECT_TRUE(files::contents(folder_ / "losses.svg").starts_with("<svg"));
}

}  // namespace
}  // namespace ridge::apps
