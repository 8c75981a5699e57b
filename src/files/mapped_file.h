// SPDX-License-Identifier: Apache-2.0
// A file's bytes, mapped read-only. The file formats interpret them through bounds-checked spans.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace ridge::files {

// The part [offset, offset + size) of `bytes`, or a bad-file Error that names `source` and `what`.
std::span<const std::byte> checked_part(std::span<const std::byte> bytes,
                                        uint64_t offset,
                                        uint64_t size,
                                        std::string_view source,
                                        std::string_view what);

class MappedFile {
 public:
  // Throws a bad-file Error that states whether the path is missing, unreadable, a folder or other
  // non-file, or empty. If another process shortens the file later, or its disk fails, reads of the
  // lost part raise SIGBUS; unreadable_file() then identifies the file.
  explicit MappedFile(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_.get()), size_}; }
  std::span<const std::byte> part(uint64_t offset, uint64_t size, std::string_view what) const {
    return checked_part(bytes(), offset, size, source_, what);
  }
  const std::string& source() const { return source_; }  // the path, as messages name it

  // Starts to read `part` from the disk, as a hint, and does not wait for it.
  void expect(std::span<const std::byte> part) const;
  // Drops the whole pages of `part` from memory, as a hint; they can be read again.
  void release(std::span<const std::byte> part) const;

 private:
  struct Unmap {
    size_t size;
    void operator()(const std::byte* data) const;
  };

  uint64_t begin_of(std::span<const std::byte> part) const;
  void advise(uint64_t begin, uint64_t end, int advice) const;

  std::string source_;
  std::unique_ptr<const std::byte, Unmap> data_;
  size_t size_ = 0;
};

// The text of a file of at most `most_bytes`. Throws the Errors of MappedFile, and one if the file
// is larger.
std::string read_small_file(const std::filesystem::path& path, size_t most_bytes);

// Whether the address lies in a mapped file. Safe in a signal handler.
bool is_mapped(const void* address);
// The message for a SIGBUS at a mapped address: which file it is, and whether it shrank.
std::string unreadable_file(const void* address);

}  // namespace ridge::files
