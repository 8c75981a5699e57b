// SPDX-License-Identifier: Apache-2.0
// Writes report.md, the results of a lab as one text for people. The JSON files hold all of its
// data too.
#pragma once

#include <string>
#include <string_view>

#include "record/lab_record.h"
#include "report/terminal.h"

namespace ridge::report {

std::string markdown_report(const record::LabRecord& lab);

// Parts that other reports share: the title with the machine and the warnings, and the tables of
// one run.
std::string heading_section(const record::LabRecord& lab, std::string_view heading);
std::string operations_section(const record::LabRecord& lab, const record::RunRecord& run);

// Text inside a line.
std::string plain(std::string_view text);
// Inline code.
std::string code(std::string_view text);
std::string table_text(const Table& table);

}  // namespace ridge::report
