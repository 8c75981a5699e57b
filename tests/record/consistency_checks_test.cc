// SPDX-License-Identifier: Apache-2.0
// Which times in two tables of a report are inconsistent.
#include "record/inference_record.h"

#include <gtest/gtest.h>

namespace ridge::record {
namespace {

RunRecord steps(const char* task, const char* level, int64_t batch, int64_t length, double ns) {
  RunRecord run;
  run.setting.model = "m";
  run.setting.task = task;
  run.setting.level = level;
  run.setting.batch_size = batch;
  run.setting.sequence = length;
  run.plain_wall_ns.assign(8, ns);
  return run;
}

Summary all(double ns) { return {8, ns, ns, ns, 0.95}; }

TEST(ConsistencyChecks, NeedAFactor) {
  EXPECT_FALSE(are_inconsistent(100, 149));
  EXPECT_FALSE(are_inconsistent(149, 100));
  EXPECT_TRUE(are_inconsistent(100, 151));
  EXPECT_TRUE(are_inconsistent(151, 100));
  EXPECT_FALSE(are_inconsistent(0, 100));  // not measured
}

TEST(ConsistencyChecks, OfAStudyOfInference) {
  InferenceRecord study;
  study.lab.runs = {steps("prefill", "compiled", 2, 16, 4e6),
                    steps("decode", "baseline", 1, 64, 9e6),
                    steps("decode", "compiled", 1, 64, 1e6)};
  CacheGainRecord gain;
  gain.context = 64;
  gain.with = all(1.2e6);
  study.gains = {gain};
  LatencyRecord latency;
  latency.batch = 2;
  latency.prompt = 16;
  latency.tokens = 3;
  latency.ttft_ns = 4.1e6;
  latency.tpot = all(1e6);
  latency.wall_ns = 6.2e6;
  study.latencies = {latency};
  check_consistency(study);
  EXPECT_TRUE(study.lab.warnings.empty()) << study.lab.warnings[0];

  study.gains[0].with = all(4e6);
  study.latencies[0].wall_ns = 30e6;
  study.latencies[0].ttft_ns = 8e6;
  check_consistency(study);
  ASSERT_EQ(study.lab.warnings.size(), 3u);
  EXPECT_EQ(study.lab.warnings[0],
            "a token at batch 1 and context 64: 1.00 ms in the table of prefill and decode, but "
            "4.00 ms in the table of the KV cache; is another program using the machine?");
  EXPECT_EQ(
      study.lab.warnings[1],
      "3 tokens after 16 at batch 2: 30.0 ms in wall time, but 10.0 ms in the sum of TTFT and "
      "TPOT; is another program using the machine?");
  EXPECT_EQ(
      study.lab.warnings[2],
      "TTFT at batch 2 and length 16: 4.00 ms in the table of prefill and decode, but 8.00 ms "
      "in the table of latencies; is another program using the machine?");
}

TEST(ConsistencyChecks, OfATrialAndTheLevels) {
  LabRecord lab;
  lab.runs = {steps("", "baseline", 1, 8, 3e6), steps("", "compiled", 1, 8, 1e6)};
  check_trial_consistency(lab);  // no trial
  lab.trials = {{{}, steps("", "compiled", 1, 8, 1.1e6), steps("", "kernels", 1, 8, 9e6)}};
  check_trial_consistency(lab);
  EXPECT_TRUE(lab.warnings.empty());
  lab.trials[0].before = steps("", "compiled", 1, 8, 2e6);
  check_trial_consistency(lab);
  ASSERT_EQ(lab.warnings.size(), 1u);
  EXPECT_NE(lab.warnings[0].find("1.00 ms in the table of levels, but 2.00 ms in the trial"),
            std::string::npos)
      << lab.warnings[0];
  // Changes that took turns with the same steps have those steps' warnings once.
  lab.trials.push_back(lab.trials[0]);
  lab.warnings.clear();
  check_trial_consistency(lab);
  EXPECT_EQ(lab.warnings.size(), 1u);
}

}  // namespace
}  // namespace ridge::record
