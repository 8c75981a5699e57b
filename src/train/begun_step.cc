// SPDX-License-Identifier: Apache-2.0
// Reads scalars while the host continues, where the device can.
#include "train/begun_step.h"

#include <cmath>
#include <cstring>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "ops/loss_scale.h"

namespace ridge::train {

PendingScalar::PendingScalar(runtime::Program& program, int graph, size_t output) {
  const ValueId scalar = program.graph(graph).graph().outputs[output];
  copy_ = program.start_read(graph, scalar);
  if (copy_ == nullptr) value_ = static_cast<double>(program.read(graph, scalar)[0]);
}

double PendingScalar::wait() {
  if (copy_ == nullptr) return value_;
  float read = 0;
  std::memcpy(&read, copy_->wait().data(), sizeof read);
  copy_.reset();
  return value_ = static_cast<double>(read);
}

// In the order of StepGraph's outputs.
void BegunStep::read(runtime::Program& program, int index, const StepGraph& graph) {
  size_t output = 0;
  if (graph.has_loss) losses_.emplace_back(program, index, output++);
  if (graph.has_norm) squared_norm_.emplace(program, index, output++);
  if (!graph.has_scale) return;
  scale_.emplace(program, index, output);
  skipped_steps_.emplace(program, index, output + 1);
}

double BegunStep::wait_for_loss() {
  double loss = 0;
  for (PendingScalar& each : losses_) loss += each.wait() / static_cast<double>(losses_.size());
  return loss;
}

double BegunStep::wait() {
  wait_for_loss();
  for (std::optional<PendingScalar>* each : {&squared_norm_, &scale_, &skipped_steps_})
    if (*each) (*each)->wait();
  if (done == nullptr) return end_ns;
  done->wait();
  return now_ns();
}

StepResult BegunStep::result(LossScaleState* scale, int64_t number) {
  StepResult result;
  result.loss = wait_for_loss();
  if (squared_norm_ && squared_norm_->wait() >= 0)
    result.gradient_norm = std::sqrt(squared_norm_->wait());
  result.skipped = skipped;
  if (scale != nullptr) take_scale(*scale, number, result);
  result.attended = attended;
  result.profiles = std::move(profiles);
  result.numerics = std::move(numerics);
  return result;
}

// The norm of gradients that overflowed is not known.
void BegunStep::take_scale(LossScaleState& scale, int64_t number, StepResult& result) {
  result.loss_scale = scale.scale;
  if (skipped) return;  // by the guard, before the update
  const auto skipped_steps = static_cast<int64_t>(skipped_steps_->wait());
  result.loss_scale = scale_->wait();
  result.overflowed = result.skipped = skipped_steps > scale.skipped_steps;
  if (result.overflowed) result.gradient_norm = -1;
  if (result.overflowed && scale.scale == ops::kLeastLossScale)
    throw runtime_error("[train] the gradients of step {} overflow fp16 with a loss scale of {}",
                        number, ops::kLeastLossScale);
  scale.scale = result.loss_scale;
  scale.skipped_steps = skipped_steps;
}

}  // namespace ridge::train
