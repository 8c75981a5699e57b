// SPDX-License-Identifier: Apache-2.0
// The lines of a training from records.
#include "report/training_text.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

namespace ridge::report {
namespace {

record::StepMetrics some_step() {
  record::StepMetrics step;
  step.step = 7;
  step.loss = 2.5;
  step.learning_rate = 3e-4;
  step.step_ns = 2e6;
  step.samples_per_s = 4000;
  step.tokens_per_s = 512000;
  step.resident_bytes = int64_t{3} << 20;
  return step;
}

TEST(TrainingText, AStepIsALine) {
  record::StepMetrics step = some_step();
  EXPECT_EQ(step_line(step, false),
            "step    7  loss 2.5000   4000.00 samples/s   2.00 ms  3.00 MiB");
  EXPECT_EQ(step_line(step, true),
            "step    7  loss 2.5000  rate 3.00e-04    512 k tokens/s   2.00 ms  3.00 MiB");
  step.gradient_norm = 0.25;
  step.instrumented = true;
  step.skipped = true;
  EXPECT_EQ(
      step_line(step, true),
      "step    7  loss 2.5000  norm 0.250  rate 3.00e-04    512 k tokens/s   2.00 ms  3.00 MiB"
      "  instrumented  skipped");
  step.overflowed = true;
  step.loss_scale = 1024;
  EXPECT_TRUE(step_line(step, true)
                  .ends_with("  instrumented  skipped: gradients overflowed, loss scale now 1024"));
}

TEST(TrainingText, ValidationsAndSamplesAreLines) {
  EXPECT_EQ(validation_line({40, std::log(8.0)}),
            "step   40  validation loss 2.0794, perplexity 8.00");
  record::TrainingSample sample{12, "Once", " upon\na \x1b[1mtime", {}, "length", ""};
  const std::string line = sample_line(sample);
  EXPECT_TRUE(line.starts_with("step   12  sample  Once upon\\na ")) << line;
  EXPECT_EQ(line.find('\x1b'), std::string::npos);
  sample.fault = "the logits are not finite";
  EXPECT_EQ(sample_line(sample), "step   12  no sample: the logits are not finite");
}

TEST(TrainingText, TheSummaryHasWhatHappened) {
  record::RunRecord run;
  run.losses = {3, 2, 1};
  run.plain_wall_ns = {2e6};
  EXPECT_TRUE(training_summary(run, {}, {}).starts_with("mean loss 2.0000\n"));
  EXPECT_NE(training_summary(run, {}, {}).find(": 0 parameters, step 2.00 ms"), std::string::npos);
  EXPECT_NE(training_summary(run, {}, {}).find("(one step)"), std::string::npos);
  run.loss_scale = 512;
  run.overflows = 1;
  record::TrainingTotals totals;
  totals.attended = 0.25;
  totals.packs_documents = true;
  totals.skipped = 2;
  totals.waited_for_checkpoints_ns = 3e9;
  EXPECT_TRUE(
      training_summary(run, totals, {})
          .starts_with("mean loss 2.0000\n"
                       "attention stayed inside documents: 25.0% of the keys of whole rows; "
                       "FLOPs and MFU count whole rows\n"
                       "2 updates were skipped\n"
                       "loss scale 512; 1 of 3 steps were skipped because gradients "
                       "overflowed\n"
                       "training waited 3.00 s for checkpoints\n"))
      << training_summary(run, totals, {});
  TerminalOptions narrow;
  narrow.columns = 40;
  narrow.fit = true;
  const std::string whole = training_summary(run, totals, {}),
                    fitted = training_summary(run, totals, narrow);
  EXPECT_GT(std::ranges::count(fitted, '\n'), std::ranges::count(whole, '\n'));
}

}  // namespace
}  // namespace ridge::report
