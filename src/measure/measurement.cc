// SPDX-License-Identifier: Apache-2.0
// Collects the steps.
#include "measure/measurement.h"

#include "base/clock.h"

namespace ridge::measure {
namespace {

// The time of one reading of the clock that times kernels.
double clock_reading_ns() {
  constexpr int kReadings = 10'000;
  double begin = now_ns(), end = begin;
  for (int i = 0; i < kReadings; ++i) end = now_ns();
  return (end - begin) / kReadings;
}

}  // namespace

void Measurement::add_plain(double wall_ns, bool is_paired) {
  plain_ns_.push_back(wall_ns);
  if (is_paired) paired_ns_.push_back(wall_ns);
}

void Measurement::add_instrumented(record::InstrumentedStep step) {
  instrumented_.push_back(std::move(step));
}

void Measurement::fill(std::span<const record::PredictedGraph> graphs,
                       record::RunRecord& record) const {
  record.plain_wall_ns = plain_ns_;
  record.paired_wall_ns = paired_ns_;
  // One clock reading before and one after each call.
  if (!instrumented_.empty())
    record.clock_ns = clock_reading_ns() * 2 * static_cast<double>(record.launches);
  record.step = record::make_step_record(graphs, instrumented_);
}

}  // namespace ridge::measure
