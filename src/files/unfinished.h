// SPDX-License-Identifier: Apache-2.0
// What is being written and has no right to stay unless it is finished, so that a program that is
// interrupted can take it away. Finishing is atomic_file.h's and atomic_folder.h's business.
#pragma once

#include <filesystem>

namespace ridge::files {

// A temporary file or folder, until the object goes.
class Unfinished {
 public:
  Unfinished() = default;
  explicit Unfinished(std::filesystem::path path);
  ~Unfinished();
  Unfinished(Unfinished&& other) noexcept;
  Unfinished& operator=(Unfinished&& other) noexcept;
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::filesystem::path& path() const { return path_; }  // empty: none

 private:
  std::filesystem::path path_;
};

// Removes all of them, from any thread; for a program about to end. Waits for nothing.
void remove_unfinished();

}  // namespace ridge::files
