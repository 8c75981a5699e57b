// SPDX-License-Identifier: Apache-2.0
// Scalars in the form that TensorBoard reads: records of TFRecord (length, its checksum, bytes,
// their checksum), each an Event of tensorflow/core/util/event.proto. A log is a version event and
// then one event per step, in a file whose name contains "tfevents".
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ridge::files {

struct EventScalar {
  std::string_view tag;  // a slash makes groups of charts
  float value = 0;
};

// Records to append to the log. `time_s` is Unix time.
std::string version_event(double time_s);
std::string scalars_event(double time_s, int64_t step, std::span<const EventScalar> scalars);

}  // namespace ridge::files
