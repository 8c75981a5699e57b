// SPDX-License-Identifier: Apache-2.0
// A lab whose ceilings its own run disproves is predicted with others.
#include "bench/ceiling_check.h"

#include <gtest/gtest.h>

#include "cost/made_up_ceilings.h"
#include "measure/whole_run.h"
#include "train/small_run.h"

namespace ridge::bench {
namespace {

// GEMMs of this rate, memory that is never the limit.
cost::Ceilings gemms_of(double flops_per_ns) {
  cost::Ceilings c = cost::made_up_ceilings({{1, 1e3, 1e3}, {1 << 30, 1e3, 1e3}}, flops_per_ns);
  c.measured_at = "2026-01-02T03:04:05Z";
  return c;
}

measure::TrainingExperiment experiment() {
  measure::TrainingExperiment e;
  e.setting.model = "test";
  e.setting.level = "fused";
  e.setting.dtype = "fp32";
  e.config = train::small_config();
  e.step = train::small_step();
  e.selection = passes::Selection("fused", "");
  e.warmup_steps = 1;
  e.steps = 4;
  return e;
}

record::LabRecord lab_of(const cost::Ceilings& ceilings) {
  auto backend = train::cpu_backend(1);
  record::LabRecord lab;
  lab.ceilings = ceilings;
  lab.runs.push_back(measure::measure_training(experiment(), *backend, lab.limits()));
  return lab;
}

CeilingCheck check(const cost::Ceilings& again) {
  return {.measure = [=] { return again; },
          .experiment = [](const record::RunRecord&) { return experiment(); },
          .make_backend = [](const auto&) { return train::cpu_backend(1); }};
}

TEST(CeilingCheck, KeepsWhatNoRunDisproves) {
  record::LabRecord lab = lab_of(gemms_of(1e6));
  const double predicted = lab.runs[0].predicted_ns;
  EXPECT_FALSE(correct_ceilings(check(gemms_of(1)), lab));
  EXPECT_EQ(lab.runs[0].predicted_ns, predicted);
  EXPECT_TRUE(lab.warnings.empty());
}

TEST(CeilingCheck, MeasuresAgainAndPredictsAgain) {
  record::LabRecord lab = lab_of(gemms_of(1e-6));  // a kFLOP/s
  const record::LabRecord expected = lab_of(gemms_of(1e6));
  EXPECT_TRUE(correct_ceilings(check(gemms_of(1e6)), lab));
  EXPECT_EQ(lab.ceilings->peak_flops_per_ns(DType::kF32), 1e6);
  EXPECT_DOUBLE_EQ(lab.runs[0].predicted_ns, expected.runs[0].predicted_ns);
  ASSERT_EQ(lab.runs[0].step.nodes.size(), expected.runs[0].step.nodes.size());
  for (size_t i = 0; i < lab.runs[0].step.nodes.size(); ++i) {
    EXPECT_DOUBLE_EQ(lab.runs[0].step.nodes[i].predicted_ns,
                     expected.runs[0].step.nodes[i].predicted_ns);
    EXPECT_EQ(lab.runs[0].step.nodes[i].bound, expected.runs[0].step.nodes[i].bound);
  }
  ASSERT_EQ(lab.warnings.size(), 1u);
  EXPECT_NE(lab.warnings[0].find("were measured again"), std::string::npos) << lab.warnings[0];
}

TEST(CeilingCheck, RaisesWhatStaysTooLow) {
  record::LabRecord lab = lab_of(gemms_of(1e-6));
  const double predicted = lab.runs[0].predicted_ns;
  correct_ceilings(check(gemms_of(1e-6)), lab);
  EXPECT_GT(lab.ceilings->peak_flops_per_ns(DType::kF32), 1e-6);
  EXPECT_EQ(lab.warnings.size(), 2u);
  EXPECT_LT(lab.runs[0].predicted_ns, predicted);
}

TEST(CeilingCheck, RaisesWithoutAnotherMeasurement) {
  record::LabRecord lab = lab_of(gemms_of(1e-6));
  const double predicted = lab.runs[0].predicted_ns;
  EXPECT_TRUE(raise_ceilings(lab));
  EXPECT_GT(lab.ceilings->peak_flops_per_ns(DType::kF32), 1e-6);
  EXPECT_EQ(lab.warnings.size(), 1u);
  EXPECT_EQ(lab.runs[0].predicted_ns, predicted);
  EXPECT_FALSE(raise_ceilings(lab));
}

}  // namespace
}  // namespace ridge::bench
