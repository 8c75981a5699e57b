// SPDX-License-Identifier: Apache-2.0
// operators.csv: one line for each op of each folded scope in each phase of the runs reported in
// detail. The lines of a run add up to its step; RFC 4180.
#pragma once

#include <string>
#include <string_view>

#include "record/lab_record.h"

namespace ridge::report {

std::string operators_csv(const record::LabRecord& lab);

// A field in quotes where it holds a comma, a quote or a line break.
std::string csv_field(std::string_view text);

}  // namespace ridge::report
