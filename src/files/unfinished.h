// SPDX-License-Identifier: Apache-2.0
// Temporary files and folders that are removed unless they are finished. An interrupted program
// removes its own. Those left behind by a killed program are removed by the next program that
// writes there. atomic_file.h and atomic_folder.h do the finishing.
#pragma once

#include <filesystem>
#include <mutex>

namespace ridge::files {

// A temporary file or folder named ".ridge-tmp-PID-N", locked (flock) while the object exists. The
// first one that a program makes in a folder removes the abandoned ones there.
class Unfinished {
 public:
  Unfinished() = default;
  // Makes an empty file or folder in `parent`. On failure the path is empty and errno has the
  // reason.
  static Unfinished file(const std::filesystem::path& parent);
  static Unfinished folder(const std::filesystem::path& parent);
  ~Unfinished();
  Unfinished(Unfinished&& other) noexcept;
  Unfinished& operator=(Unfinished&& other) noexcept;
  Unfinished(const Unfinished&) = delete;
  Unfinished& operator=(const Unfinished&) = delete;

  const std::filesystem::path& path() const { return path_; }  // empty if there is none
  int descriptor() const { return fd_; }  // a file's is open for writing while the object exists

 private:
  Unfinished(std::filesystem::path path, int fd);

  std::filesystem::path path_;
  int fd_ = -1;  // holds the lock
};

// Removes temporaries in `parent` that no program holds a lock on.
void remove_abandoned(const std::filesystem::path& parent);

// Removes all temporaries of this program, for a program about to end. Any thread may call it; it
// does not wait for the writers. While the caller keeps the lock, no temporary is made.
std::unique_lock<std::mutex> remove_unfinished();

}  // namespace ridge::files
