// SPDX-License-Identifier: Apache-2.0
// Writes report.md, the results of a lab as one text for people. The JSON files hold all of its
// data too.
#pragma once

#include <string>
#include <string_view>

#include "record/lab_record.h"

namespace ridge::report {

std::string markdown_report(const record::LabRecord& lab);

// Parts that other reports share: the title with the machine and the warnings, and the tables of
// one run.
std::string heading_section(const record::LabRecord& lab, std::string_view heading);
std::string operations_section(const record::LabRecord& lab, const record::RunRecord& run);

}  // namespace ridge::report
