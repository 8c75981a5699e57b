// SPDX-License-Identifier: Apache-2.0
// Escapes foreign text and tables for Markdown, so that nothing in them becomes markup.
#pragma once

#include <string>
#include <string_view>

#include "report/terminal.h"

namespace ridge::report {

// Text inside a line.
std::string plain(std::string_view text);
// Inline code.
std::string code(std::string_view text);
std::string table_text(const Table& table);

}  // namespace ridge::report
