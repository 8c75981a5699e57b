// SPDX-License-Identifier: Apache-2.0
// A file's bytes, mapped read-only. It does not interpret
// them; formats do, through bounds-checked spans.
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
  // A bad-file Error says whether the path is missing, unreadable, a folder or other non-file, or
  // empty. Another process that shortens the file later makes reads of the lost part fault; nobody
  // can check that.
  explicit MappedFile(const std::filesystem::path& path);

  std::span<const std::byte> bytes() const { return {data_.get(), size_}; }
  std::string_view text() const { return {reinterpret_cast<const char*>(data_.get()), size_}; }
  std::span<const std::byte> part(uint64_t offset, uint64_t size, std::string_view what) const {
    return checked_part(bytes(), offset, size, source_, what);
  }
  const std::string& source() const { return source_; }  // the path, as messages name it

  // A hint: drop the whole pages of `part` from memory (they can be read again).
  void release(std::span<const std::byte> part) const;

 private:
  struct Unmap {
    size_t size;
    void operator()(const std::byte* data) const;
  };

  std::string source_;
  std::unique_ptr<const std::byte, Unmap> data_;
  size_t size_ = 0;
};

}  // namespace ridge::files
