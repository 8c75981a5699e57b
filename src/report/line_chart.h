// SPDX-License-Identifier: Apache-2.0
// The lines of a bench over the size that varies, and what all its pictures begin with. Not for
// pictures of whole runs.
#pragma once

#include <string>

#include "files/json_field.h"

namespace ridge::report {

// "matmul, fp32: NVIDIA H100" of the part of a folder's document that is bench.json.
std::string chart_title(const files::JsonField& bench);

// A line for each form and phase over `letter`: times, and for attention a second panel of memory,
// with what each form saves over the first one at its points. Throws usage Errors without points.
std::string lines_chart(const files::JsonField& bench, const std::string& letter);

}  // namespace ridge::report
