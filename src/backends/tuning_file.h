// SPDX-License-Identifier: Apache-2.0
// Choices that a backend measured, kept in a file with the identity of what they were measured on.
// Best effort: a file that cannot be read or written costs a measurement each run, not the run.
// What a choice means is the tuner's business.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ridge::backends {

// The choices by key, an object. Empty where `path` is empty or no file, where it was written for
// another identity, or where it does not parse.
nlohmann::json read_tuning(const std::string& path, const std::string& identity);
// Replaces the file, whole; nothing where `path` is empty.
void write_tuning(const std::string& path,
                  const std::string& identity,
                  const nlohmann::json& choices);

}  // namespace ridge::backends
