// SPDX-License-Identifier: Apache-2.0
// A point of bench.json as pictures show it. Throws bad-file Errors.
#pragma once

#include <string>

#include "files/json_field.h"

namespace ridge::report {

bool is_measured(const files::JsonField& point);
// The median, or the prediction where nothing ran; 0 if neither is known.
double time_of(const files::JsonField& point);
// "k=64,n=8", or "k=n=64" where all sizes are equal; empty if the point has none.
std::string shape_text(const files::JsonField& point);

}  // namespace ridge::report
