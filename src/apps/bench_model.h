// SPDX-License-Identifier: Apache-2.0
// `ridge bench model`, which times whole models. Not a subcommand by itself.
#pragma once

#include "apps/subcommand.h"

namespace ridge::apps {

// Adds the subcommand `model` to `bench`.
void add_bench_model(Command bench, const AppContext& context);

}  // namespace ridge::apps
