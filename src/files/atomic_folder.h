// SPDX-License-Identifier: Apache-2.0
// A folder that appears complete or not at all: filled in the same parent under a temporary name,
// then renamed. Single files are in atomic_file.h.
#pragma once

#include <filesystem>

#include "files/unfinished.h"

namespace ridge::files {

class AtomicFolder {
 public:
  // `path` must not exist or be an empty folder (a usage Error otherwise): nothing is ever
  // replaced. Throws if the parent is missing or not writable.
  explicit AtomicFolder(std::filesystem::path path);
  // Removes everything unless committed.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // The temporary folder to write into.
  const std::filesystem::path& inside() const { return temporary_.path(); }
  // Renames the folder into place. Call it once, at the end.
  void commit();

 private:
  std::filesystem::path path_;
  Unfinished temporary_;
};

}  // namespace ridge::files
