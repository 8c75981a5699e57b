// SPDX-License-Identifier: Apache-2.0
// Plans for other machines: on each of them, the predicted time of a step decreases from level to
// level, and no pass adds GEMMs.
#include <gtest/gtest.h>

#include "backends/null/null_backend.h"
#include "cost/hardware.h"
#include "models/config.h"
#include "planning/step_plan.h"

namespace ridge::planning {
namespace {

// Fused attention computes its scores again. On machines with slow fp32 GEMMs, this may cost more
// than the saved bytes of the scores, by at most 1.2% of a step.
constexpr double kMostMoreFlops = 1.05;
constexpr double kMostMoreTime = 1.015;

TEST(Plan, GetsFasterDownTheLadder) {
  auto target = backends::null::make_null_target();
  for (const char* name : {"tiny", "medium"}) {
    const models::Preset& preset = models::preset(name);
    train::TrainingSetup experiment;
    experiment.config = preset.config;
    experiment.step.batch_size = preset.batch_size;
    experiment.step.sequence = preset.sequence;
    for (const char* switches : {"", "+autocast_bf16"}) {
      std::vector<train::TrainingStep> ladder;
      for (const char* level : {"baseline", "fused", "kernels", "compiled"})
        ladder.push_back(train::build_step(
            {preset.config, experiment.step, passes::Selection(level, switches)}, *target));
      for (const char* machine : {"a10", "a100", "h200"}) {
        cost::Ceilings ceilings = cost::ceilings_of(*cost::find_hardware(machine));
        std::vector<record::RunRecord> plans;
        for (const train::TrainingStep& step : ladder)
          plans.push_back(plan_step(experiment, step, *target, &ceilings));
        for (size_t i = 1; i < plans.size(); ++i) {
          std::string where = fmt::format("{} {} on {}, level {}", name, switches, machine, i);
          EXPECT_LE(plans[i].predicted_ns, kMostMoreTime * plans[i - 1].predicted_ns) << where;
          EXPECT_LE(static_cast<double>(plans[i].executed.flops),
                    kMostMoreFlops * static_cast<double>(plans[0].executed.flops))
              << where;
          EXPECT_EQ(plans[i].palm_flops(), plans[0].palm_flops()) << where;
        }
      }
    }
  }
}

}  // namespace
}  // namespace ridge::planning
