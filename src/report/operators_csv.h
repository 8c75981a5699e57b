// SPDX-License-Identifier: Apache-2.0
// Writes CSV (RFC 4180), and operators.csv: one line for each op, folded scope and phase of the
// runs reported in detail. The lines of a run add up to its step.
#pragma once

#include <string>
#include <string_view>

#include "report/json_text.h"

namespace ridge::report {

std::string operators_csv(const record::LabRecord& lab);

// Chosen values (see Choice) and their names. Null is an empty field; no line break.
std::string csv_line(const Json& values, std::string_view columns);
std::string csv_header(std::string_view columns);

// Quotes a field if it holds a comma, a quote or a line break.
std::string csv_field(std::string_view text);

}  // namespace ridge::report
