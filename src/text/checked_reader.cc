// SPDX-License-Identifier: Apache-2.0
// Keeps an incomplete character at the end of a piece for the next one.
#include "text/checked_reader.h"

#include <cstring>

#include "base/error.h"
#include "text/utf8.h"

namespace ridge::text {
namespace {

constexpr size_t kPieceBytes = size_t{1} << 18;

// The first byte that is not part of a valid character, or the size.
size_t first_invalid(std::string_view text) {
  constexpr uint64_t kHighBits = 0x8080808080808080u;
  for (size_t at = 0; at < text.size();) {
    uint64_t eight = 0;
    if (at + sizeof eight <= text.size()) {
      std::memcpy(&eight, text.data() + at, sizeof eight);
      if ((eight & kHighBits) == 0) {
        at += sizeof eight;
        continue;
      }
    }
    const CodePoint c = decode_utf8(text, at);
    if (!c.valid) return at;
    at += c.size;
  }
  return text.size();
}

}  // namespace

std::string_view CheckedReader::next() {
  if (place_ < 0) {
    buffer_.resize(kPieceBytes);
    place_ = stream_.place();
  }
  const size_t kept = filled_ - size_;
  std::memmove(buffer_.data(), buffer_.data() + size_, kept);
  const size_t count = stream_.read(std::span(buffer_).subspan(kept));
  filled_ = kept + count;
  const std::string_view all = std::string_view(buffer_).substr(0, filled_);
  // At the end of the file nothing completes a character.
  size_ = filled_ - (filled_ == buffer_.size() ? incomplete_suffix_bytes(all) : 0);
  const size_t bad = first_invalid(all.substr(0, size_));
  if (bad < size_)
    throw file_error("[{}] expected UTF-8, found the byte 0x{:02x} at byte {}", source(),
                     static_cast<uint8_t>(all[bad]), place_ + static_cast<int64_t>(bad));
  place_ += static_cast<int64_t>(size_);
  return all.substr(0, size_);
}

}  // namespace ridge::text
