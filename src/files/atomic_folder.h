// SPDX-License-Identifier: Apache-2.0
// A folder that appears whole or not at all: filled beside its place under a temporary name, then
// renamed. Single files are atomic_file.h's business.
#pragma once

#include <filesystem>

#include "files/unfinished.h"

namespace ridge::files {

class AtomicFolder {
 public:
  // Nothing may be at `path` but an empty folder (a usage Error otherwise): what is there is never
  // replaced. Throws when the parent is missing or not writable.
  explicit AtomicFolder(std::filesystem::path path);
  // Removes all, unless committed.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // Where to write.
  const std::filesystem::path& inside() const { return temporary_.path(); }
  // Renames; call once, last.
  void commit();

 private:
  std::filesystem::path path_;
  Unfinished temporary_;
};

}  // namespace ridge::files
