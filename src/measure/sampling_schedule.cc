// SPDX-License-Identifier: Apache-2.0
// Groups of four steps.
#include "measure/sampling_schedule.h"

#include <algorithm>

#include "backends/backend.h"

namespace ridge::measure {
namespace {

// Enough samples for medians.
constexpr int64_t kDenseSteps = 16, kSampledEvery = 64;
constexpr int64_t kMostRecorded = backends::Instrument::kMostRuns;
static_assert(kDenseSteps / 2 <= kMostRecorded);

}  // namespace

SamplingSchedule SamplingSchedule::training(int64_t steps, bool by_device) {
  constexpr int64_t kStepsPerRecorded = 16;
  const int64_t recorded = std::clamp<int64_t>(steps / kStepsPerRecorded, 1, kDenseSteps / 2);
  return {steps, by_device ? 2 * recorded : kDenseSteps, by_device};
}

SamplingSchedule SamplingSchedule::inference(int64_t steps, bool by_device) {
  return {steps, by_device ? 2 * (kMostRecorded - 1) : kDenseSteps, by_device};  // 1: the warm-up
}

bool SamplingSchedule::is_sampled(int64_t step) const {
  if (step < 0 || step >= steps_) return false;
  return step < dense_steps_ || (!by_device_ && step % kSampledEvery < 4);
}

bool SamplingSchedule::is_instrumented(int64_t step) const {
  const bool is_inner = step % 4 == 1 || step % 4 == 2;
  const int64_t four = step < dense_steps_ ? step / 4 : step / kSampledEvery;
  return is_sampled(step) && is_inner == (by_device_ || four % 2 == 0);
}

}  // namespace ridge::measure
