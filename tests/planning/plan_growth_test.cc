// SPDX-License-Identifier: Apache-2.0
// The time to build and plan a step grows like its nodes, so that no pass and no part of a plan
// searches the whole graph for each node.
#include <gtest/gtest.h>

#include <algorithm>
#include <ctime>

#include "backends/null/null_backend.h"
#include "cost/hardware.h"
#include "models/config.h"
#include "planning/step_plan.h"

namespace ridge::planning {
namespace {

double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

// The least CPU time of three builds and plans of the tiny preset with that many layers.
double seconds_to_plan(int64_t layers, const char* level) {
  auto target = backends::null::make_null_target();
  cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware("h200"));
  train::TrainingSetup e;
  e.config = models::preset("tiny").config;
  e.config.layers = layers;
  e.selection = passes::Selection(level, "+autocast_bf16");
  double least = 0;
  for (int i = 0; i < 3; ++i) {
    const double begin = thread_seconds();
    EXPECT_GT(plan_step(e, *target, &ceilings).predicted_ns, 0);
    const double seconds = thread_seconds() - begin;
    least = i == 0 ? seconds : std::min(least, seconds);
  }
  return least;
}

// Eight times the nodes may take 24 times as long: caches hold less of a large graph, and other
// programs disturb the clock. A search of the graph for each node would take 64 times as long.
TEST(Plan, TimeGrowsLikeTheNodes) {
  constexpr double kMost = 24;
  EXPECT_LT(seconds_to_plan(512, "compiled"), kMost * seconds_to_plan(64, "compiled"));
  EXPECT_LT(seconds_to_plan(128, "baseline"), kMost * seconds_to_plan(16, "baseline"));
}

}  // namespace
}  // namespace ridge::planning
