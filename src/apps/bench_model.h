// SPDX-License-Identifier: Apache-2.0
// The part of `ridge bench` that times whole models. Not a subcommand.
#pragma once

#include "apps/subcommand.h"

namespace ridge::apps {

// Adds `model` to `bench`.
void add_bench_model(Command bench, const AppContext& context);

}  // namespace ridge::apps
