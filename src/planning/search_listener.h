// SPDX-License-Identifier: Apache-2.0
// How a planner tells of its searches, which may build many graphs.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace ridge::planning {

// Called for each trial with the name of the search, the unit of its trials and the trial itself:
// "largest batch", "batch sizes", "64 sequences".
using SearchListener =
    std::function<void(std::string_view search, std::string_view unit, const std::string& trial)>;

}  // namespace ridge::planning
