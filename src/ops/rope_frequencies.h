// SPDX-License-Identifier: Apache-2.0
// The rotation frequencies that a rope_table node's attributes describe; backends bind them.
#pragma once

#include <vector>

#include "graph/attrs.h"

namespace ridge::ops {

// E/2 frequencies in radians per position.
std::vector<double> rope_frequencies(const Attrs& attrs);

}  // namespace ridge::ops
