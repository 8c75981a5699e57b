// SPDX-License-Identifier: Apache-2.0
// The file is a JSON object with two members, "identity" and "choices".
#include "backends/tuning_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "files/json_field.h"

namespace ridge::backends {

nlohmann::json read_tuning(const std::string& path, const std::string& identity) {
  std::error_code error;
  if (path.empty() || !std::filesystem::is_regular_file(path, error))
    return nlohmann::json::object();
  try {
    nlohmann::json document = files::read_json(path);
    files::JsonField file(document, path);
    if (file.at("identity").text() == identity) return file.at("choices").object();
  } catch (const Error&) {  // overwritten by the next choices
  }
  return nlohmann::json::object();
}

void write_tuning(const std::string& path,
                  const std::string& identity,
                  const nlohmann::json& choices) {
  if (path.empty()) return;
  try {
    files::write_file(path, nlohmann::json{{"identity", identity}, {"choices", choices}}.dump(1));
  } catch (const Error&) {  // measured again in the next run
  }
}

}  // namespace ridge::backends
