// SPDX-License-Identifier: Apache-2.0
// Stores choices that a backend measured in a file, with the identity of the machine they were
// measured on. Best effort: a file that cannot be read or written costs a measurement in each run,
// but does not fail the run. The tuner defines what a choice means.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace ridge::backends {

// Returns the choices as an object from keys to choices. Empty if `path` is empty or names no file,
// if the file was written for another identity, or if it does not parse.
nlohmann::json read_tuning(const std::string& path, const std::string& identity);
// Why the file at `path` is not one of choices, as one line; empty if it is or does not exist. Such a
// file is replaced.
std::string tuning_fault(const std::string& path);
// Replaces the whole file; does nothing if `path` is empty.
void write_tuning(const std::string& path,
                  const std::string& identity,
                  const nlohmann::json& choices);

}  // namespace ridge::backends
