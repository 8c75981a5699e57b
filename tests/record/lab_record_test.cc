// SPDX-License-Identifier: Apache-2.0
// The warnings about a run's times.
#include "record/lab_record.h"

#include <gtest/gtest.h>

namespace ridge::record {
namespace {

RunRecord steady(double plain_ns, double instrumented_ns) {
  RunRecord run;
  run.setting.model = "small";
  run.plain_wall_ns.assign(8, plain_ns);
  run.step.wall_ns = instrumented_ns;
  return run;
}

std::string warnings(const RunRecord& run) {
  LabRecord lab;
  add_doubts(run, lab);
  std::string text;
  for (const std::string& each : lab.warnings) text += each + "\n";
  return text;
}

TEST(Doubts, NoneOfASteadyRun) {
  EXPECT_EQ(warnings(steady(1e6, 1.2e6)), "");
  EXPECT_EQ(warnings(steady(1e6, 0)), "");  // nothing was instrumented
}

TEST(Doubts, TablesOfAnotherSpeedThanThePlainSteps) {
  EXPECT_NE(warnings(steady(80e6, 531e6)).find("took 6.6 times as long"), std::string::npos);
  EXPECT_NE(warnings(steady(100e6, 40e6)).find("took 0.4 times as long"), std::string::npos);
}

TEST(Doubts, StepsThatVary) {
  RunRecord run = steady(1e6, 1e6);
  for (size_t i = 0; i < run.plain_wall_ns.size(); ++i) run.plain_wall_ns[i] *= 1 + 0.2 * (i % 3);
  EXPECT_NE(warnings(run).find("vary by"), std::string::npos);
}

}  // namespace
}  // namespace ridge::record
