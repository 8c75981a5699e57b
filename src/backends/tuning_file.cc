// SPDX-License-Identifier: Apache-2.0
// The file is a JSON object with two members, "identity" and "choices".
#include "backends/tuning_file.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "files/atomic_file.h"
#include "files/json.h"
#include "files/json_field.h"
#include "files/mapped_file.h"

namespace ridge::backends {

namespace {

constexpr size_t kMostBytes = 16 << 20;

struct Tuning {
  std::string identity;
  nlohmann::json choices = nlohmann::json::object();
};

// Empty if there is no file.
Tuning read(const std::string& path) {
  std::error_code error;
  if (path.empty() || !std::filesystem::exists(std::filesystem::symlink_status(path, error)))
    return {};
  const nlohmann::json document = files::parse_json(files::read_small_file(path, kMostBytes), path);
  const files::JsonField file(document, path);
  return {file.at("identity").text(), file.at("choices").object()};
}

}  // namespace

nlohmann::json read_tuning(const std::string& path, const std::string& identity) {
  try {
    Tuning tuning = read(path);
    if (tuning.identity == identity) return std::move(tuning.choices);
  } catch (const Error&) {  // overwritten by the next choices
  }
  return nlohmann::json::object();
}

std::string tuning_fault(const std::string& path) {
  try {
    read(path);
    return "";
  } catch (const Error& error) {
    return error.what();
  }
}

void write_tuning(const std::string& path,
                  const std::string& identity,
                  const nlohmann::json& choices) {
  if (path.empty()) return;
  try {
    files::write_file(path, nlohmann::json{{"identity", identity}, {"choices", choices}}.dump(1),
                      files::Links::kReplace);
  } catch (const Error&) {  // measured again in the next run
  }
}

}  // namespace ridge::backends
