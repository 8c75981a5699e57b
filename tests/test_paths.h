// SPDX-License-Identifier: Apache-2.0
// Where tests find their data, the source tree and the built program. Only test_paths.cc knows the
// folders, so other objects are the same in every working tree and compiler caches share them.
#pragma once

#include <filesystem>
#include <string>

namespace ridge {

// A file of tests/data. A bundle (make bundle) sets RIDGE_TEST_DATA to its copy of that folder.
std::filesystem::path test_data(const std::string& name);

// A file of the source tree.
std::filesystem::path source_file(const std::string& name);

// The built program `ridge`. tools/mutants.py sets RIDGE_PROGRAM to a changed one.
const char* ridge_program();

}  // namespace ridge
