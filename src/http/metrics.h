// SPDX-License-Identifier: Apache-2.0
// The engine's counts in Prometheus's text format, version 0.0.4.
#pragma once

#include <string>

#include "serve/engine_counts.h"

namespace ridge::http {

inline constexpr const char* kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

// `now_s` is the present, on the clock of EngineCounts::last_step_s.
std::string metrics_text(const serve::EngineCounts& counts, const std::string& model, double now_s);

}  // namespace ridge::http
