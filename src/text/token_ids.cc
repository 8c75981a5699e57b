// SPDX-License-Identifier: Apache-2.0
// Copies ids one part at a time, so the data may be larger than memory.
#include "text/token_ids.h"

#include <bit>
#include <cstring>
#include <limits>

#include "base/error.h"

namespace ridge::text {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are copied as they lie in the file");

size_t bytes_of(IdWidth width) { return static_cast<size_t>(width); }

}  // namespace

IdWidth smallest_id_width(int32_t vocab_size) {
  return vocab_size <= std::numeric_limits<uint16_t>::max() + 1 ? IdWidth::k16 : IdWidth::k32;
}

TokenIds::TokenIds(std::span<const std::byte> bytes,
                   IdWidth width,
                   int32_t vocab_size,
                   std::string source)
    : bytes_(bytes),
      width_(width),
      vocab_size_(vocab_size),
      size_(static_cast<int64_t>(bytes.size() / bytes_of(width))),
      source_(std::move(source)) {
  if (bytes.size() % bytes_of(width) != 0)
    throw file_error("[{}] expected ids of {} bytes each, got {} bytes", source_, bytes_of(width),
                     bytes.size());
}

void TokenIds::read(int64_t first, std::span<int32_t> out) const {
  auto count = static_cast<int64_t>(out.size());
  RIDGE_CHECK(first >= 0 && count <= size_ && first <= size_ - count, "ids {} to {} of {}", first,
              first + count, size_);
  const std::byte* from = bytes_.data() + static_cast<size_t>(first) * bytes_of(width_);
  for (size_t i = 0; i < out.size(); ++i) {
    uint32_t id = 0;
    std::memcpy(&id, from + i * bytes_of(width_), bytes_of(width_));
    if (id >= static_cast<uint32_t>(vocab_size_))
      throw file_error("[{}] expected ids below {}, got {} at position {}", source_, vocab_size_,
                       id, first + static_cast<int64_t>(i));
    out[i] = static_cast<int32_t>(id);
  }
}

}  // namespace ridge::text
