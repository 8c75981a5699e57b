// SPDX-License-Identifier: Apache-2.0
// Texts in tests/golden that tests compare with what they made.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <vector>

#include "test_paths.h"

namespace ridge {

inline std::vector<std::string> lines_of(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// The first line in which two texts differ, with its number.
inline std::string first_difference(const std::string& want, const std::string& got) {
  const std::vector<std::string> wanted = lines_of(want), made = lines_of(got);
  size_t at = 0;
  while (at < wanted.size() && at < made.size() && wanted[at] == made[at]) ++at;
  const auto line = [&](const std::vector<std::string>& lines) {
    return at < lines.size() ? lines[at] : std::string("(the end)");
  };
  return "line " + std::to_string(at + 1) + "\n  expected: " + line(wanted) +
         "\n  got:      " + line(made);
}

// RIDGE_UPDATE_GOLDEN=1 in the environment rewrites the file instead.
inline void expect_golden(const std::string& file, const std::string& text) {
  const std::filesystem::path path = source_file("tests/golden/" + file);
  if (std::getenv("RIDGE_UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream in(path);
  const std::string want((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_TRUE(want == text) << file << ", " << first_difference(want, text)
                            << "\nRIDGE_UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace ridge
