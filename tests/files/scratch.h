// SPDX-License-Identifier: Apache-2.0
// Shared code of tests with files: a folder that is deleted at the end, the test data, and a check
// of Errors.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "base/error.h"
#include "test_paths.h"

namespace ridge::files {

class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "ridge-test-XXXXXX").string();
    path_ = ::mkdtemp(pattern.data());
  }
  ~ScratchFolder() { std::filesystem::remove_all(path_); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }
  const std::filesystem::path& path() const { return path_; }
  size_t count() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(path_), {}));
  }

 private:
  std::filesystem::path path_;
};

// The path of a model that tools/fetch_models.sh fetches; tests skip if it is absent.
inline std::filesystem::path fetched_model(const std::string& name) {
  const char* folder = std::getenv("RIDGE_MODELS");
  const char* home = std::getenv("HOME");
  return folder ? std::filesystem::path(folder) / name
                : std::filesystem::path(home ? home : "") / ".cache/ridge/models" / name;
}

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

inline void write_plain(const std::filesystem::path& path, std::string_view text) {
  std::ofstream(path, std::ios::binary) << text;
}

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

// Expects `act` to throw an Error with this code and with `part` in its message.
inline void expect_error(const std::function<void()>& act, ExitCode code, const std::string& part) {
  try {
    act();
    ADD_FAILURE() << "expected an Error with: " << part;
  } catch (const Error& error) {
    EXPECT_EQ(static_cast<int>(error.code()), static_cast<int>(code)) << error.what();
    EXPECT_NE(std::string(error.what()).find(part), std::string::npos)
        << "expected: " << part << "\n   found: " << error.what();
  }
}

}  // namespace ridge::files
