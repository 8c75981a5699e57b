// SPDX-License-Identifier: Apache-2.0
// The rotation frequencies defined by the attributes of a rope_table node, for the backends.
#pragma once

#include <vector>

#include "graph/attrs.h"

namespace ridge::ops {

// E/2 frequencies in radians per position.
std::vector<double> rope_frequencies(const Attrs& attrs);

}  // namespace ridge::ops
