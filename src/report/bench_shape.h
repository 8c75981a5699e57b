// SPDX-License-Identifier: Apache-2.0
// The sizes of a point of bench.json as pictures name them.
#pragma once

#include <string>

#include "files/json_field.h"

namespace ridge::report {

// "k=64,n=8", or "k=n=64" where all are equal; empty if the point has none. Throws bad-file Errors.
std::string shape_text(const files::JsonField& point);

}  // namespace ridge::report
