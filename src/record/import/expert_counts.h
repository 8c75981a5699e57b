// SPDX-License-Identifier: Apache-2.0
// Counts the products of experts whose own call does not have their weights, by what is recorded of
// the operations inside it: vLLM's moe_forward has the tokens and the router's scores alone.
#pragma once

#include "record/import/foreign_trace.h"

namespace ridge::record {

// Gives each such call the counts that follow; one whose weights, or whose number of chosen
// experts, are not recorded stays as it is.
void count_experts(ForeignTrace& trace);

}  // namespace ridge::record
