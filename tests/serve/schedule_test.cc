// SPDX-License-Identifier: Apache-2.0
// The engine's choices, without a model: what a step computes.
#include "serve/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

namespace ridge::serve {
namespace {

using Ids = std::vector<int64_t>;
constexpr Running kDecodes{1, true};

Running prompt(int64_t pending) { return {pending, false}; }
Ids step(std::vector<Running> running, StepLimits limits = {512, 128}) {
  return choose_step(running, limits);
}

TEST(ChooseStep, NothingRuns) { EXPECT_EQ(step({}), Ids{}); }

TEST(ChooseStep, AllThatDecodeAdvance) {
  EXPECT_EQ(step({kDecodes, kDecodes, kDecodes}), (Ids{1, 1, 1}));
}

TEST(ChooseStep, APromptAloneTakesWholeChunks) {
  EXPECT_EQ(step({prompt(2000)}), Ids{512});
  EXPECT_EQ(step({prompt(70)}), Ids{70});
}

TEST(ChooseStep, APromptBesideOthersLeavesThemTheirPace) {
  EXPECT_EQ(step({kDecodes, prompt(2000), kDecodes}), (Ids{1, 126, 1}));
}

TEST(ChooseStep, PromptsShareAStepFirstComeFirstServed) {
  EXPECT_EQ(step({prompt(100), prompt(300), prompt(200), prompt(5)}), (Ids{100, 300, 112, 0}));
  EXPECT_EQ(step({prompt(100), kDecodes, prompt(300)}), (Ids{100, 1, 27}));
}

TEST(ChooseStep, APromptNeverStopsBesideManyThatDecode) {
  std::vector<Running> many(200, kDecodes);
  many.push_back(prompt(40));
  const Ids ids = step(many);
  EXPECT_EQ(ids.back(), 1);
  EXPECT_EQ(std::accumulate(ids.begin(), ids.end(), int64_t{0}), 201);
}

TEST(ChooseStep, StepsAreNeverLongerThanAChunk) {
  EXPECT_EQ(step({kDecodes, prompt(90)}, {16, 128}), (Ids{1, 15}));
}

// Whatever arrives, a prompt of n ids is done after finitely many steps, and each decoding sequence
// has one token in each of them.
TEST(ChooseStep, AllPromptsEnd) {
  const StepLimits limits{64, 24};
  std::vector<Running> running;
  int64_t steps = 0;
  for (int64_t i = 0; i < 40; ++i) running.push_back(prompt(1 + i * 37 % 150));
  for (; std::ranges::any_of(running, [](const Running& r) { return !r.decodes; }); ++steps) {
    ASSERT_LT(steps, 3000);
    const Ids ids = choose_step(running, limits);
    int64_t total = 0, decoding = 0;
    for (size_t i = 0; i < running.size(); ++i) {
      Running& each = running[i];
      EXPECT_LE(ids[i], each.pending);
      EXPECT_GE(ids[i], each.decodes ? 1 : 0);
      total += ids[i];
      decoding += each.decodes ? 1 : 0;
      each.pending -= ids[i];
      if (each.pending > 0) continue;
      each = kDecodes;
    }
    EXPECT_LE(total,
              std::max(decoding > 0 ? limits.max_batched_tokens : limits.chunk, decoding + 1));
  }
}

// Three run, of priorities 0, 1 and 2; each owns 10 blocks and keeps 1 or 2.
std::optional<int64_t> pushed_out(int64_t priority, int64_t wanted, int64_t available) {
  const BlockUse running[] = {{0 > priority, 10, 1}, {1 > priority, 10, 2}, {2 > priority, 10, 1}};
  return count_preempted(running, wanted, available);
}

TEST(CountPreempted, NobodyWhereBlocksAreFree) {
  EXPECT_EQ(pushed_out(5, 6, 10), 0);
  EXPECT_EQ(pushed_out(-5, 6, 10), 0);
  EXPECT_EQ(count_preempted({}, 6, 10), 0);
}

TEST(CountPreempted, AsFewAsAreEnough) {
  EXPECT_EQ(pushed_out(-1, 7, 10), 1);
  EXPECT_EQ(pushed_out(-1, 17, 10), 1);  // 17 + 3 for those that stay
  EXPECT_EQ(pushed_out(-1, 18, 10), 2);
  EXPECT_EQ(pushed_out(-1, 29, 10), 2);
  EXPECT_EQ(pushed_out(-1, 30, 10), 3);
}

TEST(CountPreempted, OnlyLargerPrioritiesAndNoneInVain) {
  EXPECT_EQ(pushed_out(2, 7, 10), std::nullopt);
  EXPECT_EQ(pushed_out(1, 17, 10), 1);
  EXPECT_EQ(pushed_out(1, 18, 10), std::nullopt);
  EXPECT_EQ(pushed_out(0, 29, 10), 2);
  EXPECT_EQ(pushed_out(0, 30, 10), std::nullopt);
}

}  // namespace
}  // namespace ridge::serve
