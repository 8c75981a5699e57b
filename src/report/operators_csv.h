// SPDX-License-Identifier: Apache-2.0
// Writes operators.csv (RFC 4180): one line for each op, folded scope and phase of the runs
// reported in detail. The lines of a run add up to its step.
#pragma once

#include <string>
#include <string_view>

#include "record/lab_record.h"

namespace ridge::report {

std::string operators_csv(const record::LabRecord& lab);

// Quotes a field if it holds a comma, a quote or a line break.
std::string csv_field(std::string_view text);

}  // namespace ridge::report
