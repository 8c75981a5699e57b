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

// Says what becomes of a symbolic link at the path. A user who names a file means what it links to.
// Where Ridge chooses the name (caches, files of a run folder), a link is somebody else's, and what
// it links to must stay.
enum class Links { kFollow, kReplace };

class AtomicFile {
 public:
  // Throws if the folder is missing or not writable, or if `path` is something other than a regular
  // file or link (a rename would replace the device or pipe).
  explicit AtomicFile(const std::filesystem::path& path, Links links = Links::kFollow);
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

// Makes renames in the folder survive a power failure, as far as its file system can. Throws a
// run-time Error if the disk fails.
void sync_folder(const std::filesystem::path& folder);

void write_file(const std::filesystem::path& path,
                std::string_view contents,
                Links links = Links::kFollow);

}  // namespace ridge::files
