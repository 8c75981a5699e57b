// SPDX-License-Identifier: Apache-2.0
// The counts of a processor in a run's instrumented steps, as text and as JSON.
#pragma once

#include <string>

#include "report/json_text.h"

namespace ridge::report {

// One sentence with medians per step, beside the planned bytes, or why there are none; empty if
// nothing was to be counted.
std::string hardware_note(const record::RunRecord& run);

// {steps, cycles, instructions, cache_misses, memory_bytes, reason}: medians per step, null where
// nothing was counted.
Json to_json(const record::HardwareCounts& counts);

}  // namespace ridge::report
