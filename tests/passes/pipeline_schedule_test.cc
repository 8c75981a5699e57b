// SPDX-License-Identifier: Apache-2.0
// Tests of the order in which the stages of a pipeline work.
#include "passes/pipeline_schedule.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "base/error.h"

namespace ridge::passes {
namespace {

using Kind = PipelineTask::Kind;
using Tasks = std::vector<std::vector<PipelineTask>>;

bool is_transfer(const PipelineTask& task) {
  return task.kind == Kind::kSendHidden || task.kind == Kind::kReceiveHidden ||
         task.kind == Kind::kSendGradient || task.kind == Kind::kReceiveGradient;
}

// "F0 > F1 < B0": forward and backward passes, sends and receives.
std::string text_of(const std::vector<PipelineTask>& tasks) {
  std::string text;
  for (const PipelineTask& each : tasks) {
    const char* mark = each.kind == Kind::kForward                                          ? "F"
                       : each.kind == Kind::kBackward                                       ? "B"
                       : each.kind == Kind::kWeights                                        ? "W"
                       : each.kind == Kind::kSendHidden || each.kind == Kind::kSendGradient ? ">"
                                                                                            : "<";
    text += fmt::format("{}{}{}", text.empty() ? "" : " ", mark, each.micro_batch);
  }
  return text;
}

// The part that a transfer comes from, and whether hidden states move.
std::tuple<int64_t, int64_t, bool> transfer_of(const PipelineShape& shape,
                                               int64_t stage,
                                               const PipelineTask& task) {
  const int64_t part = task.chunk * shape.stages + stage;
  const bool is_hidden = task.kind == Kind::kSendHidden || task.kind == Kind::kReceiveHidden;
  const int64_t from = task.kind == Kind::kReceiveHidden     ? part - 1
                       : task.kind == Kind::kReceiveGradient ? part + 1
                                                             : part;
  return {from, task.micro_batch, is_hidden};
}

// Runs the lists together; a send ends when it is received. Returns how many tasks ended.
size_t walk(const PipelineShape& shape, const Tasks& tasks) {
  std::vector<size_t> at(tasks.size(), 0);
  const auto next = [&](size_t stage) {
    return at[stage] < tasks[stage].size() ? &tasks[stage][at[stage]] : nullptr;
  };
  size_t ended = 0;
  for (bool moves = true; moves;) {
    moves = false;
    for (size_t s = 0; s < tasks.size(); ++s)
      for (const PipelineTask* own = next(s); own != nullptr && !is_transfer(*own); own = next(s))
        ++at[s], ++ended, moves = true;
    for (size_t s = 0; s < tasks.size(); ++s)
      for (size_t t = 0; t < tasks.size(); ++t) {
        const PipelineTask *own = next(s), *other = next(t);
        if (s == t || own == nullptr || other == nullptr || !is_transfer(*own) ||
            !is_transfer(*other) || own->kind == other->kind)
          continue;
        if (transfer_of(shape, static_cast<int64_t>(s), *own) ==
            transfer_of(shape, static_cast<int64_t>(t), *other))
          ++at[s], ++at[t], ended += 2, moves = true;
      }
  }
  return ended;
}

TEST(PipelineSchedule, OneForwardOneBackward) {
  const Tasks tasks = pipeline_tasks({.stages = 2, .micro_batches = 3});
  EXPECT_EQ(text_of(tasks[0]), "F0 >0 F1 >1 <0 B0 F2 >2 <1 B1 <2 B2");
  EXPECT_EQ(text_of(tasks[1]), "<0 F0 <1 B0 >0 F1 B1 <2 >1 F2 B2 >2");
}

TEST(PipelineSchedule, GradientsOfWeightsFillTheWaiting) {
  const Tasks tasks =
      pipeline_tasks({.stages = 2, .micro_batches = 3, .order = PipelineOrder::kZeroBubble});
  EXPECT_EQ(std::ranges::count(tasks[0], Kind::kWeights, &PipelineTask::kind), 0)
      << "nobody waits for the first stage";
  EXPECT_EQ(std::ranges::count(tasks[1], Kind::kWeights, &PipelineTask::kind), 3);
}

// Every task once, a stage never has more micro-batches under way than 1F1B's first stage has, and
// no two stages wait for each other.
TEST(PipelineSchedule, RunsEveryTaskOnceWithoutDeadlock) {
  for (const PipelineOrder order : {PipelineOrder::kOneForwardOneBackward,
                                    PipelineOrder::kInterleaved, PipelineOrder::kZeroBubble})
    for (const int64_t stages : {2, 3, 4, 7})
      for (const int64_t micro_batches : {1, 2, 5, 8, 16})
        for (const int64_t chunks : {1, 2, 3}) {
          if (chunks > 1 && order != PipelineOrder::kInterleaved) continue;
          const PipelineShape shape{stages, chunks, micro_batches, order};
          SCOPED_TRACE(testing::Message() << static_cast<int>(order) << " " << stages << " "
                                          << micro_batches << " " << chunks);
          const Tasks tasks = pipeline_tasks(shape);
          size_t all = 0;
          for (const std::vector<PipelineTask>& each : tasks) {
            all += each.size();
            int64_t under_way = 0, most = 0;
            for (const PipelineTask& task : each) {
              if (task.kind == Kind::kForward) ++under_way;
              if (task.kind == Kind::kBackward) --under_way;
              most = std::max(most, under_way);
            }
            EXPECT_EQ(under_way, 0);
            if (chunks == 1) {
              EXPECT_LE(most, std::min(stages, micro_batches));
            }
            EXPECT_EQ(std::ranges::count(each, Kind::kForward, &PipelineTask::kind),
                      micro_batches * chunks);
            EXPECT_EQ(std::ranges::count(each, Kind::kBackward, &PipelineTask::kind),
                      micro_batches * chunks);
          }
          EXPECT_EQ(walk(shape, tasks), all);
        }
}

TEST(PipelineSchedule, EvaluatesForwardAlone) {
  const Tasks tasks = pipeline_tasks({.stages = 2, .chunks = 2, .trains = false});
  EXPECT_EQ(text_of(tasks[0]), "F0 >0 <0 F0 >0");
  EXPECT_EQ(text_of(tasks[1]), "<0 F0 >0 <0 F0");
}

TEST(PipelineSchedule, HasNames) {
  EXPECT_EQ(pipeline_order("zero-bubble"), PipelineOrder::kZeroBubble);
  EXPECT_THROW(pipeline_order("gpipe"), Error);
}

}  // namespace
}  // namespace ridge::passes
