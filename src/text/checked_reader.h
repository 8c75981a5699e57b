// SPDX-License-Identifier: Apache-2.0
// Reads a stream of text in pieces and checks that it is UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "files/byte_stream.h"

namespace ridge::text {

class CheckedReader {
 public:
  explicit CheckedReader(files::ByteStream& stream) : stream_(stream) {}

  // The next piece, of whole characters; empty at the end. Valid until the next call. Throws a
  // bad-file Error with the place of a byte that is not UTF-8.
  std::string_view next();
  int64_t place() const { return place_; }  // the last piece ends there
  const std::string& source() const { return stream_.source(); }

 private:
  files::ByteStream& stream_;
  std::string buffer_;
  size_t size_ = 0;     // the piece has so many bytes
  size_t filled_ = 0;   // more than the piece if a character is incomplete
  int64_t place_ = -1;  // -1: nothing is read yet
};

}  // namespace ridge::text
