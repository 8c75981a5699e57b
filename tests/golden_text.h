// SPDX-License-Identifier: Apache-2.0
// Texts in tests/golden that tests compare with what they made.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "test_paths.h"

namespace ridge {

// RIDGE_UPDATE_GOLDEN=1 in the environment rewrites the file instead.
inline void expect_golden(const std::string& file, const std::string& text) {
  const std::filesystem::path path = source_file("tests/golden/" + file);
  if (std::getenv("RIDGE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream in(path);
  const std::string want((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(want, text) << file << " is another text now; RIDGE_UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace ridge
