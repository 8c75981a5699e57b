// SPDX-License-Identifier: Apache-2.0
// The passes by name; pipeline.cc orders them.
#pragma once

#include "passes/pass.h"

namespace ridge::passes {

const Pass& expand_pass();
const Pass& legalize_pass();

}  // namespace ridge::passes
