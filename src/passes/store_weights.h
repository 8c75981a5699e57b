// SPDX-License-Identifier: Apache-2.0
// Shared by the passes that change the type in which a weight is stored.
#pragma once

#include "passes/pass.h"

namespace ridge::passes {

// Changes the parameter's type to `dtype`; the load graph converts the file's tensor.
void store_as(DType dtype, Value& parameter, PassContext& context);

// Fixes the output type of each embedding lookup at what it is now. By default it is the table's
// type, which store_as changes.
void keep_lookups(Graph& graph);

}  // namespace ridge::passes
