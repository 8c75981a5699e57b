// SPDX-License-Identifier: Apache-2.0
// Combines several launches of one node into one.
#pragma once

#include <utility>
#include <vector>

#include "backends/backend.h"

namespace ridge::backends {

inline Launch in_order(std::vector<Launch> launches) {
  if (launches.size() == 1) return std::move(launches[0]);
  return [launches = std::move(launches)] {
    for (const Launch& launch : launches) launch();
  };
}

}  // namespace ridge::backends
