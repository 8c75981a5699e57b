// SPDX-License-Identifier: Apache-2.0
// Declares `ridge bench attention`. Not a subcommand of the program itself.
#pragma once

#include "apps/subcommand.h"

namespace ridge::apps {

void add_bench_attention(Command bench, const AppContext& context);

}  // namespace ridge::apps
