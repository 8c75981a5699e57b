// SPDX-License-Identifier: Apache-2.0
// Writes an engine's event log as JSON for the live page and as a trace. Times are nanoseconds
// since the engine began.
#pragma once

#include <cstdint>
#include <string>

#include "http/served_model.h"

namespace ridge::http {

inline constexpr int64_t kMostTraceSeconds = 3600;

// Returns the changes after event `after`; the reply's "event" is the `after` of the next call. The
// first call (0) also gets the constants: the model, its bounds, and the machine's rooflines by the
// type of GEMMs, if known. With steps comes the reason of an MBU over 100%.
std::string event_log_json(const ServedModel& model, int64_t after);

// Returns the last `seconds` of the log in the format of PyTorch's profiler: a track of steps, and
// as many tracks of requests as were open at once.
std::string event_log_trace(const ServedModel& model, const std::string& program, int64_t seconds);

}  // namespace ridge::http
