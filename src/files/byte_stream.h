// SPDX-License-Identifier: Apache-2.0
// Reads a file from front to back in parts, unpacking gzip and zstd. For texts of any length;
// formats that are read at places of their own use mapped_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace ridge::files {

class Unpacker;

class ByteStream {
 public:
  // Opens a file, or stdin for "-". How it is packed follows from its first bytes. Throws a
  // bad-file Error if the path is missing, unreadable, a folder, a circle of links or empty.
  explicit ByteStream(const std::filesystem::path& path);
  ~ByteStream();
  ByteStream(const ByteStream&) = delete;
  ByteStream& operator=(const ByteStream&) = delete;

  // Fills `out` with unpacked bytes; fewer only at the end. Throws a bad-file Error for data that
  // are damaged or end early.
  size_t read(std::span<char> out);
  // Reads and drops bytes. Throws a bad-file Error if there are fewer.
  void skip(int64_t bytes);

  const std::string& source() const { return source_; }
  int64_t packed_bytes() const { return packed_bytes_; }  // taken so far, as in the file
  int64_t place() const { return place_; }                // unpacked bytes read so far

 private:
  // Packed bytes that are not taken yet, after reading some if there are none; empty at the end.
  std::span<const char> packed();
  void take(size_t count);

  std::string source_;
  int descriptor_ = -1;
  std::vector<char> buffer_;
  size_t begin_ = 0, end_ = 0;  // they bound the bytes that are left in the buffer
  int64_t packed_bytes_ = 0;
  int64_t place_ = 0;
  std::unique_ptr<Unpacker> unpacker_;  // null: the bytes are as in the file
};

}  // namespace ridge::files
