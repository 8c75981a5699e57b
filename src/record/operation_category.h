// SPDX-License-Identifier: Apache-2.0
// Finds the category of an operation by name, be it an op of Ridge or known from traces alone.
#pragma once

#include <string_view>

#include "graph/op.h"

namespace ridge::record {

// The category of an op of Ridge, or of an operation that an imported trace names; kOther for
// unknown names.
OpCategory operation_category(std::string_view op);

}  // namespace ridge::record
