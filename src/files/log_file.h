// SPDX-License-Identifier: Apache-2.0
// A file that grows while a program runs. What was appended is there for other programs at once,
// and stays if this one is killed.
#pragma once

#include <filesystem>
#include <string_view>

namespace ridge::files {

class LogFile {
 public:
  enum class Start { kNew, kGoOn };
  // Throws a run-time Error if the folder is not writable or something is at the path already; to
  // go on, that must be a file.
  explicit LogFile(const std::filesystem::path& path, Start start = Start::kNew);
  ~LogFile();
  LogFile(LogFile&& other) noexcept;
  LogFile& operator=(LogFile&&) = delete;
  LogFile(const LogFile&) = delete;

  // Throws a run-time Error that names the path and the reason, such as a full disk.
  void append(std::string_view text);

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace ridge::files
