// SPDX-License-Identifier: Apache-2.0
// The folders are definitions of the build.
#include "test_paths.h"

#include <cstdlib>

#include "files/failing_calls.h"

namespace ridge {

std::filesystem::path test_data(const std::string& name) {
  const char* folder = std::getenv("RIDGE_TEST_DATA");
  return folder != nullptr ? std::filesystem::path(folder) / name
                           : source_file("tests/data/" + name);
}

std::filesystem::path source_file(const std::string& name) {
  return std::filesystem::path(RIDGE_SOURCE) / name;
}

const char* ridge_program() {
  const char* program = std::getenv("RIDGE_PROGRAM");
  return program != nullptr ? program : RIDGE_PROGRAM;
}

const char* failing_calls_library() { return RIDGE_FAILING_CALLS; }

}  // namespace ridge
