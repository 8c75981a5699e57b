// SPDX-License-Identifier: Apache-2.0
// Foreign text and tables inside Markdown, where nothing in them may become markup.
#pragma once

#include <string>
#include <string_view>

#include "base/terminal.h"

namespace ridge::report {

// Inside a line.
std::string plain(std::string_view text);
// As code.
std::string code(std::string_view text);
std::string table_text(const Table& table);

}  // namespace ridge::report
