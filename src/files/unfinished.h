// SPDX-License-Identifier: Apache-2.0
// Temporary files and folders that have no right to stay unless they are finished. An interrupted
// program removes its own; what a killed one left behind, the next that writes there removes.
// Finishing is atomic_file.h's and atomic_folder.h's business.
#pragma once

#include <filesystem>

namespace ridge::files {

// A temporary file or folder, named ".ridge-tmp-PID-N" and locked (flock) until the object goes. The
// first one that a program makes in a folder removes those that are abandoned.
class Unfinished {
 public:
  Unfinished() = default;
  // An empty file or folder in `parent`; no path where that fails, and errno says why.
  static Unfinished file(const std::filesystem::path& parent);
  static Unfinished folder(const std::filesystem::path& parent);
  ~Unfinished();
  Unfinished(Unfinished&& other) noexcept;
  Unfinished& operator=(Unfinished&& other) noexcept;
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::filesystem::path& path() const { return path_; }  // empty: none
  int descriptor() const { return fd_; }  // of a file: open for writing, while the object is there

 private:
  Unfinished(std::filesystem::path path, int fd);

  std::filesystem::path path_;
  int fd_ = -1;  // holds the lock
};

// Removes temporaries in `parent` that no program holds a lock on.
void remove_abandoned(const std::filesystem::path& parent);

// Removes all of this program's, from any thread; for a program about to end. Waits for nothing.
void remove_unfinished();

}  // namespace ridge::files
