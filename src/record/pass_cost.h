// SPDX-License-Identifier: Apache-2.0
// The cost of a step with the passes up to one of them.
#pragma once

#include <string>

#include "record/run_record.h"

namespace ridge::record {

struct PassCost {
  std::string pass;  // empty: only the passes that every step needs
  std::string summary;
  RunRecord planned;  // the whole step, with gradient and update
};

}  // namespace ridge::record
