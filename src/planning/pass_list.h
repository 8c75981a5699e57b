// SPDX-License-Identifier: Apache-2.0
// The list of the passes of all backends, as text and as JSON.
#pragma once

#include <span>
#include <string>

#include "passes/pipeline.h"

namespace ridge::planning {

// The passes in the order in which they run, with summary and trade-off. No line is wider than
// `columns`.
std::string pass_list_text(int columns);

// The same as a JSON array.
std::string pass_list_json();

// The passes that the selection leaves off, with their summaries if `verbose` is set.
std::string passes_off_text(const passes::Selection& selection,
                            std::span<const passes::Pass* const> of_backend,
                            bool verbose,
                            int columns);

}  // namespace ridge::planning
