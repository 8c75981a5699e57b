// SPDX-License-Identifier: Apache-2.0
// JSON as it is sent.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "base/terminal_json.h"

namespace ridge::http {

// On one line, harmless to a terminal. Bytes that are not UTF-8 become U+FFFD instead of an
// exception.
inline std::string json_text(const nlohmann::ordered_json& json) {
  return terminal_safe_json(
      json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

}  // namespace ridge::http
