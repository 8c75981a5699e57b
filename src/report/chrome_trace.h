// SPDX-License-Identifier: Apache-2.0
// Writes trace.json in Chrome's trace event format, which Perfetto opens. Each run is one process,
// with tracks for kernels, scopes and phases and a counter of live memory by class. Slices of one
// track never overlap. The trace shows the instrumented step with the median wall time; its graphs
// are laid end to end.
#pragma once

#include <cstdint>
#include <string>

#include "record/lab_record.h"

namespace ridge::report {

// Perfetto's page stays responsive up to this size.
inline constexpr int64_t kTraceCapBytes = int64_t{64} << 20;

struct Trace {
  std::string text;
  int64_t events = 0;
  int64_t dropped_events = 0;  // omitted to stay under the cap
  std::string warning;         // empty if no event was dropped
};

// A trace of the runs reported in detail. The text is valid JSON for any cap; it may exceed the cap
// by one event and the closing lines.
Trace chrome_trace(const record::LabRecord& lab, int64_t cap_bytes = kTraceCapBytes);

}  // namespace ridge::report
