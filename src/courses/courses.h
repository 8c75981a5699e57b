// SPDX-License-Identifier: Apache-2.0
// Courses on performance: demos, a ladder of GEMMs, the formats of their files, the names of their
// conventions and the times that they published. The engine builds without this room.
#pragma once

#include <span>

#include "bench/technique_study.h"

namespace ridge::courses {

// Adds this room's rows to the engine's lists. The program calls it once, before it reads them.
void add_to_program();

std::span<const bench::PublishedTime> published_times();

}  // namespace ridge::courses
