// SPDX-License-Identifier: Apache-2.0
// The name of an imported run and the size of its steps, as far as the trace tells.
#pragma once

#include <optional>
#include <string>

#include "record/import/imported_steps.h"
#include "record/run_record.h"

namespace ridge::record {

// `product_type` is the type of the largest products; nothing if none are counted.
Setting imported_setting(const ForeignTrace& trace,
                         const ImportedSteps& steps,
                         std::optional<DType> product_type);

// "traces/small.pt.trace.json.gz" -> "small"
std::string trace_title(const std::string& path);

}  // namespace ridge::record
