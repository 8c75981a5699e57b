// SPDX-License-Identifier: Apache-2.0
// Counts the gradients of functions written in Python (FlashAttnFunc, Transformer Engine's layers),
// whose own calls record the gradient of the output alone, by the call of the forward pass that has
// the same sequence number.
#pragma once

#include "record/import/foreign_trace.h"

namespace ridge::record {

// Gives each such gradient its counts; one whose forward pass has none stays as it is.
void count_gradients(ForeignTrace& trace);

}  // namespace ridge::record
