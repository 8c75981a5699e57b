// SPDX-License-Identifier: Apache-2.0
// Foreign text on stdout, which is harmless to a terminal.
#pragma once

#include <string_view>

#include "report/json_text.h"

namespace ridge::report {

// Writes text from a file or a model. On a terminal, control characters except tabs and line ends
// are escaped; a file or a pipe gets the text unchanged.
void write_text(std::string_view text);
// The same as a line of JSON, which escapes in its own way: a terminal gets ASCII alone.
void write_json(const Json& json);
// A record as a line of JSON.
template <record::HasFigures R>
void write_json(const R& record) {
  write_json(to_json(record));
}

}  // namespace ridge::report
