// SPDX-License-Identifier: Apache-2.0
// Declares `ridge bench module` and `ridge bench graph`. Not subcommands of the program itself.
#pragma once

#include "apps/subcommand.h"

namespace ridge::apps {

void add_bench_module(Command bench, const AppContext& context);
void add_bench_graph(Command bench, const AppContext& context);

}  // namespace ridge::apps
