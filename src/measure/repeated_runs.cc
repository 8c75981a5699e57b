// SPDX-License-Identifier: Apache-2.0
// Times plain runs by a clock, and profiled ones by the backend's instrument.
#include "measure/repeated_runs.h"

#include "base/clock.h"
#include "measure/sampling_schedule.h"

namespace ridge::measure {
namespace {

constexpr int64_t kLeastPlain = 6;  // with fewer, an interval covers less than 95%
constexpr double kPatience = 3;     // times the budget that a measurement may take to get so many

}  // namespace

bool RepeatedRuns::run(const Repeats& repeats, const std::function<bool()>& is_stopped) {
  if (is_stopped()) return false;
  instrumented(-1);
  if (instrument_ != nullptr) plain_ns();  // a device captures the graph in its second run
  const SamplingSchedule schedule =
      SamplingSchedule::inference(repeats.most, instrument_ != nullptr);
  const double begin = now_ns();
  auto goes_on = [&](int64_t done) {
    if (done < repeats.least) return true;
    if (done >= repeats.most) return false;
    const bool is_interval = std::ssize(measurement_.plain_ns()) >= kLeastPlain;
    return !repeats.any(now_ns() - begin >= (is_interval ? 1 : kPatience) * repeats.budget_ns);
  };
  for (int64_t i = 0; goes_on(i); ++i) {
    if (is_stopped()) return false;
    if (schedule.is_instrumented(i)) {
      measurement_.add_instrumented(instrumented(i));
    } else {
      measurement_.add_plain(plain_ns(), schedule.is_sampled(i));
    }
  }
  return true;
}

double RepeatedRuns::plain_ns() {
  if (instrument_ != nullptr) instrument_->rest();
  const double begin = now_ns();
  operation_.once();
  return now_ns() - begin;
}

record::InstrumentedStep RepeatedRuns::instrumented(int64_t index) {
  if (instrument_ == nullptr) hardware_.start();
  record::InstrumentedStep step{{}, 0, now_ns(), index};
  step.runs = operation_.profiled();
  step.wall_ns = now_ns() - step.begin_ns;
  if (instrument_ == nullptr && index >= 0) hardware_.stop(counts_);
  for (const record::ProfiledRun& each : step.runs) step.wall_ns -= each.instrument_ns;
  return step;
}

}  // namespace ridge::measure
