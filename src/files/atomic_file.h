// SPDX-License-Identifier: Apache-2.0
// Files that appear complete or not at all: written in the same folder under a temporary name,
// flushed to disk, then renamed. Until commit() an existing file stays; without commit() the
// temporary file is removed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "files/unfinished.h"

namespace ridge::files {

class AtomicFile {
 public:
  // Throws if the folder is missing or not writable, or if `path` is something other than a regular
  // file (a rename would replace the device or pipe). A symbolic link is followed: its target is
  // replaced.
  explicit AtomicFile(const std::filesystem::path& path);
  ~AtomicFile();
  AtomicFile(AtomicFile&& other) noexcept = default;
  AtomicFile& operator=(AtomicFile&&) = delete;
  AtomicFile(const AtomicFile&) = delete;

  // Writes are buffered. A full disk, a quota or any other failure is a run-time Error that names
  // the path and the reason.
  void write(std::span<const std::byte> bytes);
  void write(std::string_view text);
  void pad_to_multiple(int64_t alignment_bytes);  // zeros
  int64_t size() const { return written_bytes_ + static_cast<int64_t>(buffer_.size()); }

  // Flushes and syncs, so that only the rename can still fail. For several files that should appear
  // together, finish all, then commit all.
  void finish();
  // Calls finish() if needed, then renames. Call it once, at the end.
  void commit();

 private:
  void flush();
  void write_through(std::span<const std::byte> bytes);

  std::filesystem::path path_;
  Unfinished temporary_;
  std::vector<std::byte> buffer_;
  int64_t written_bytes_ = 0;
  bool finished_ = false;
};

void write_file(const std::filesystem::path& path, std::string_view contents);

}  // namespace ridge::files
