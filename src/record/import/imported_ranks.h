// SPDX-License-Identifier: Apache-2.0
// The ranks of one run, of which each has a trace.
#pragma once

#include <filesystem>
#include <span>
#include <vector>

#include "record/import/imported_steps.h"
#include "record/rank_times.h"

namespace ridge::record {

// The traces in a folder; none for a file. Sorted by name.
std::vector<std::filesystem::path> trace_files(const std::filesystem::path& folder);

// The clocks of traces are not known to agree.
ExchangeRecord exchange_record(std::span<const ImportedSteps> ranks);

}  // namespace ridge::record
