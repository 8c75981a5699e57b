// SPDX-License-Identifier: Apache-2.0
// What an engine did lately, as JSON for the live page and as a trace. Times are nanoseconds since
// the engine began.
#pragma once

#include <cstdint>
#include <string>

#include "http/served_model.h"

namespace ridge::http {

inline constexpr int64_t kMostTraceSeconds = 3600;

// What has happened after an event; {"event"} is that of the next call. The first call (0) also gets
// what does not change: the model, its bounds, and the machine's roofs if they are known.
std::string activity_json(const ServedModel& model, int64_t after);

// The last `seconds`, as far back as they are kept, in the shape of PyTorch's profiler: a track of
// steps, and requests on as many tracks as were open at once.
std::string activity_trace(const ServedModel& model, const std::string& program, int64_t seconds);

}  // namespace ridge::http
