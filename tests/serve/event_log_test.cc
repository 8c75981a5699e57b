// SPDX-License-Identifier: Apache-2.0
// The recorder alone: what it keeps, what it gives after an event, and what it forgets.
#include "serve/event_log.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "models/cache_shape.h"

namespace ridge::serve {
namespace {

TEST(EventLog, GivesWhatChangedAfterAnEvent) {
  EventLog log(10);
  const int64_t first = log.submit(7, 30, 1), second = log.submit(8, 40, 2);
  log.admit(first, 16, 3);
  log.step({.begin_ns = 3, .end_ns = 4, .sequences = 1, .prefill_tokens = 14});
  log.token(first, 5);
  const EventLog::Snapshot before = log.since(0);
  ASSERT_EQ(before.requests.size(), 2u);
  ASSERT_EQ(before.steps.size(), 1u);
  EXPECT_EQ(before.steps[0].number, 1);
  EXPECT_EQ(before.steps[0].prefill_tokens, 14);
  EXPECT_EQ(before.requests[1].id, 8u);
  EXPECT_EQ(before.requests[1].reached().size(), 1u);
  EXPECT_EQ(log.since(before.event).requests.size(), 0u);
  log.token(first, 6);
  log.requeue(first, 7);
  log.admit(first, 32, 8);  // It computed 16 of these tokens itself.
  log.token(first, 9);
  log.end(first, Finish::kLength, 9);
  const EventLog::Snapshot after = log.since(before.event);
  EXPECT_EQ(after.steps.size(), 0u);
  ASSERT_EQ(after.requests.size(), 1u);
  const LoggedRequest& made = after.requests[0];
  EXPECT_EQ(made.id, 7u);
  EXPECT_EQ(made.prompt_tokens, 30);
  EXPECT_EQ(made.cached_tokens, 16);
  EXPECT_EQ(made.generated_tokens, 3);
  EXPECT_EQ(made.first_ns, 5);
  EXPECT_EQ(made.last_ns, 9);
  EXPECT_EQ(made.end_ns, 9);
  std::vector<std::pair<Stage, double>> stages;
  for (const auto& each : made.reached()) stages.emplace_back(each.stage, each.begin_ns);
  EXPECT_EQ(stages, (std::vector<std::pair<Stage, double>>{{Stage::kQueued, 1},
                                                           {Stage::kPrefill, 3},
                                                           {Stage::kDecode, 5},
                                                           {Stage::kQueued, 7},
                                                           {Stage::kPrefill, 8},
                                                           {Stage::kDecode, 9}}));
  log.end(second, Finish::kCancelled, 10);
  EXPECT_EQ(log.since(after.event).requests[0].finish, Finish::kCancelled);
}

TEST(EventLog, KeepsTheLastStepsAndEveryOpenRequest) {
  EventLog log(10);
  const int64_t open = log.submit(1, 1, 0);
  for (size_t i = 0; i < 3 * EventLog::kRequests; ++i)
    log.end(log.submit(2 + i, 1, 0), Finish::kStop, 1);
  for (size_t i = 0; i < EventLog::kSteps + 5; ++i) log.step({});
  log.token(open, 2);
  const EventLog::Snapshot all = log.since(0);
  ASSERT_EQ(all.requests.size(), EventLog::kRequests);
  EXPECT_EQ(all.requests.front().id, 1u);
  EXPECT_EQ(all.requests.front().generated_tokens, 1);
  EXPECT_EQ(all.requests.back().id, 3 * EventLog::kRequests + 1);
  ASSERT_EQ(all.steps.size(), EventLog::kSteps);
  EXPECT_EQ(all.steps.front().number, 6);
  EXPECT_EQ(log.since(0, 2).steps.front().number, static_cast<int64_t>(EventLog::kSteps) + 4);
}

TEST(EventLog, RecordsNoMoreThanItHasRoomFor) {
  EventLog log(10);
  for (size_t i = 0; i < EventLog::kRequests; ++i) EXPECT_GE(log.submit(1 + i, 1, 0), 0);
  const int64_t none = log.submit(9999, 1, 0);
  EXPECT_EQ(none, -1);
  log.token(none, 1);
  log.end(none, Finish::kStop, 1);
  for (int i = 0; i < 100; ++i) {
    log.requeue(0, 1);
    log.token(0, 1);
  }
  EXPECT_EQ(log.since(0).requests[0].reached().size(), LoggedRequest::kMostStages);
  EXPECT_EQ(log.since(0).requests[0].generated_tokens, 100);
}

TEST(EventLog, MapsBlocksByState) {
  models::ModelConfig config;
  config.layers = 1;
  models::CacheShape shape;
  shape.slots = 3;
  shape.full = {.blocks = 24, .block_tokens = models::kBlockTokens, .blocks_per_slot = 8};
  SequenceBlocks blocks(shape, config, true);
  std::vector<int32_t> ids(40);
  for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int32_t>(i);
  blocks.begin(0, ids, 0);
  blocks.extend(0, 40);  // three blocks, two of them whole
  blocks.append(0, ids);
  blocks.begin(1, ids, 0);  // shares the two
  blocks.extend(1, 40);
  EventLog log(24);
  log.blocks(blocks, false, 1e18);  // nobody has asked
  EXPECT_EQ(log.since(0).blocks.counts, (std::array<int64_t, kBlockStates>{24, 0, 0, 0}));
  log.blocks(blocks, true, 2e18);
  EXPECT_EQ(log.since(0).blocks.counts, (std::array<int64_t, kBlockStates>{20, 0, 2, 2}));
  blocks.release(0);
  blocks.release(1);
  log.blocks(blocks, true, 3e18);
  const BlockMap map = log.since(0).blocks;
  EXPECT_EQ(map.counts, (std::array<int64_t, kBlockStates>{22, 2, 0, 0}));
  EXPECT_EQ(std::ranges::count(map.cells, BlockState::kCached), 2);
  EXPECT_EQ(std::ssize(map.cells), 24);
  EXPECT_EQ(EventLog(10'000).since(0).blocks.blocks_per_cell, 3);
}

}  // namespace
}  // namespace ridge::serve
