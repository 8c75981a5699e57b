// SPDX-License-Identifier: Apache-2.0
// `ridge bench serve`, which measures a server under load. Not a subcommand by itself.
#pragma once

#include "apps/subcommand.h"

namespace ridge::apps {

// Adds the subcommand `serve` to `bench`.
void add_bench_serve(Command bench, const AppContext& context);

}  // namespace ridge::apps
