// SPDX-License-Identifier: Apache-2.0
// report.md: what a lab found, joined into one text for
// people. Everything in it stands in the JSON files too.
#pragma once

#include <string>
#include <string_view>

#include "record/lab_record.h"

namespace ridge::report {

std::string markdown_report(const record::LabRecord& lab);

// Its parts that other reports have too: the title with the machine and the warnings, and the
// tables of one run.
std::string heading_section(const record::LabRecord& lab, std::string_view title);
std::string operations_section(const record::LabRecord& lab, const record::RunRecord& run);

}  // namespace ridge::report
