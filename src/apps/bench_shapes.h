// SPDX-License-Identifier: Apache-2.0
// Declares `ridge bench shapes`.
#pragma once

#include "apps/subcommand.h"

namespace ridge::apps {

void add_bench_shapes(Command bench, const AppContext& context);

}  // namespace ridge::apps
