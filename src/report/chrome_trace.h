// SPDX-License-Identifier: Apache-2.0
// trace.json in Chrome's trace event format, which Perfetto opens: one process
// a run, with tracks for kernels, scopes and phases and a counter of live
// memory by class. Slices of one track never overlap. Shown is the instrumented
// step whose wall time is the median; its graphs are laid end to end.
#pragma once

#include <cstdint>
#include <string>

#include "record/lab_record.h"

namespace ridge::report {

inline constexpr int64_t kTraceCapBytes = int64_t{64}
                                          << 20;  // Perfetto's page stays quick up to there

struct Trace {
  std::string text;
  int64_t events = 0;
  int64_t dropped_events = 0;  // left out to keep the cap
  std::string warning;         // empty when nothing was
};

// The runs reported in detail. The text is valid JSON whatever the cap; it may pass it by one event
// and the closing lines.
Trace chrome_trace(const record::LabRecord& lab, int64_t cap_bytes = kTraceCapBytes);

}  // namespace ridge::report
