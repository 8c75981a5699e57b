// SPDX-License-Identifier: Apache-2.0
// Asks once whether stdout is a terminal.
#include "report/standard_output.h"

#include <unistd.h>

#include <cstdio>

#include "base/printable.h"

namespace ridge::report {
namespace {

bool writes_to_terminal() {
  static const bool is_terminal = ::isatty(STDOUT_FILENO) != 0;
  return is_terminal;
}

}  // namespace

void write_text(std::string_view text) {
  const bool is_escaped = writes_to_terminal();
  const std::string safe = is_escaped ? terminal_safe_text(text) : std::string();
  if (is_escaped) text = safe;
  std::fwrite(text.data(), 1, text.size(), stdout);
}

void write_json(const Json& json) {
  const std::string line =
      json.dump(-1, ' ', writes_to_terminal(), Json::error_handler_t::replace) + "\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

}  // namespace ridge::report
