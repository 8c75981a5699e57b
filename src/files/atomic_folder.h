// SPDX-License-Identifier: Apache-2.0
// A folder that appears complete or not at all: filled in the same parent under a temporary name,
// then renamed. Single files are in atomic_file.h.
#pragma once

#include <filesystem>

#include "files/unfinished.h"

namespace ridge::files {

class AtomicFolder {
 public:
  enum class Existing { kRefuse, kReplace };
  // `path` must not exist or be an empty folder (a usage Error otherwise), unless a folder there
  // may be replaced. Throws if the parent is missing or not writable.
  explicit AtomicFolder(std::filesystem::path path, Existing existing = Existing::kRefuse);
  // Removes everything unless committed.
  ~AtomicFolder();
  AtomicFolder(const AtomicFolder&) = delete;
  AtomicFolder& operator=(const AtomicFolder&) = delete;

  // The temporary folder to write into.
  const std::filesystem::path& inside() const { return temporary_.path(); }
  // Renames the folder into place, after one that it replaces has got another name. Call it once,
  // at the end.
  void commit();

 private:
  std::filesystem::path parent() const;

  std::filesystem::path path_;
  Existing existing_;
  Unfinished temporary_;
};

}  // namespace ridge::files
