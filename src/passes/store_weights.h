// SPDX-License-Identifier: Apache-2.0
// What passes that change a weight's type in the store share.
#pragma once

#include "passes/pass.h"

namespace ridge::passes {

// The parameter is of this type from now on: the load graph converts what the file has.
void store_as(DType dtype, Value& parameter, PassContext& context);

// A look-up gives its table's type unless it says another: from now on each says what it gave.
void keep_lookups(Graph& graph);

}  // namespace ridge::passes
