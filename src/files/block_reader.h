// SPDX-License-Identifier: Apache-2.0
// Reads a file byte by byte, as parsers do, in blocks of a fixed size, so that a file larger than
// memory can pass. byte_stream.h opens and unpacks it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace ridge::files {

class ByteStream;

class BlockReader {
 public:
  // Throws a bad-file Error if the path is missing, unreadable or no regular file. Files
  // in gzip or zstd are recognized by their first bytes.
  explicit BlockReader(const std::filesystem::path& path);
  // Bytes in memory, read as they are.
  BlockReader(std::string bytes, std::string source);
  ~BlockReader();
  BlockReader(BlockReader&& other) noexcept;

  // The byte to read next; only before the end.
  char current() const { return *at_; }
  bool at_end() const { return at_ == end_; }
  // Goes to the next byte. Throws a bad-file Error if the disk fails, the gzip data is damaged or
  // ends early, or an item is longer than its limit.
  void advance() {
    if (++at_ == end_) refill();
  }

  // From here, at most `most` bytes may be read until the next call; in whole blocks.
  void limit_item(int64_t most) { item_end_ = position() + most; }
  int64_t position() const { return before_ + (at_ - begin()); }  // uncompressed bytes before this
  const std::string& source() const { return source_; }

 private:
  const char* begin() const { return block_.data(); }
  void refill();

  std::string source_;
  std::unique_ptr<ByteStream> stream_;  // null for bytes in memory
  std::vector<char> block_;
  const char* at_ = nullptr;
  const char* end_ = nullptr;
  int64_t before_ = 0;  // uncompressed bytes before the block
  int64_t item_end_ = INT64_MAX;
};

}  // namespace ridge::files
