// SPDX-License-Identifier: Apache-2.0
// Takes the rates of a step from the counts of the plan.
#include "measure/step_figures.h"

#include <utility>

#include "base/process_memory.h"

namespace ridge::measure {

StepFigures::StepFigures(record::RunRecord plan,
                         const cost::ReferenceRate& peak,
                         const train::OptimizerOptions& optimizer,
                         int64_t warmup_steps,
                         Listener listener)
    : plan_(std::move(plan)),
      peak_(peak),
      optimizer_(optimizer),
      warmup_steps_(warmup_steps),
      listener_(std::move(listener)) {}

void StepFigures::after_step(const train::StepEvent& event) {
  if (event.index < 0) return;
  const train::StepResult& result = event.result;
  ++steps_;
  attended_ += result.attended;
  overflows_ += result.overflowed ? 1 : 0;
  plan_.plain_wall_ns = {result.elapsed_ns};
  record::StepMetrics step;
  step.step = event.index;
  step.instrumented = event.instrumented;
  step.loss = result.loss;
  step.learning_rate = train::learning_rate(optimizer_, warmup_steps_ + 1 + event.index);
  step.step_ns = result.elapsed_ns;
  step.samples_per_s = plan_.samples_per_s();
  step.tokens_per_s = plan_.tokens_per_s();
  step.model_flops_per_s = plan_.palm_flops_per_s();
  step.mfu = plan_.mfu(peak_);
  step.resident_bytes = read_process_memory().resident_bytes;
  step.gradient_norm = result.gradient_norm;
  step.attended = result.attended;
  step.skipped = result.skipped;
  step.overflowed = result.overflowed;
  step.loss_scale = result.loss_scale;
  step.overflows = overflows_;
  listener_(step);
}

double StepFigures::attended() const {
  return steps_ > 0 ? attended_ / static_cast<double>(steps_) : 1;
}

}  // namespace ridge::measure
