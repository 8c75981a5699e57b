// SPDX-License-Identifier: Apache-2.0
// The guide to training reaches the validation losses that it states.
#include "apps/guide_case.h"

namespace ridge::apps {
namespace {

using GuideSlowTest = GuideCase;

// Other machines add in another order.
constexpr double kAllowed = 0.05;

TEST_F(GuideSlowTest, ReachesTheStatedLosses) {
  if (!has_bible()) GTEST_SKIP() << "apt-get install bible-kjv";
  if (!std::filesystem::exists(files::fetched_model("SmolLM2-135M-Instruct.Q4_1.gguf")))
    GTEST_SKIP() << "make models fetches SmolLM2";
  double last = -1;
  int compared = 0;
  for (const Block& each : blocks()) {
    if (each.is_command) {
      if (each.text.find("apt-get") == std::string::npos)
        last = validation_loss(run_block(each.text));
      continue;
    }
    const double stated = validation_loss(each.text);
    if (stated < 0) continue;
    ++compared;
    EXPECT_NEAR(last, stated, kAllowed) << each.text;
    fmt::print("validation loss {:.4f}, stated {:.4f}\n", last, stated);
  }
  EXPECT_EQ(compared, 3) << "training, fine-tuning and adapters";
}

}  // namespace
}  // namespace ridge::apps
