// SPDX-License-Identifier: Apache-2.0
// Reads bytes as token ids in the common headerless layout: little-endian unsigned ids of 2 or 4
// bytes, one after the other. The caller maps the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ridge::text {

enum class IdWidth : uint8_t { k16 = 2, k32 = 4 };  // bytes per id

// 16 bits if all ids fit.
IdWidth smallest_id_width(int32_t vocab_size);

// A view of ids; the bytes must outlive it.
class TokenIds {
 public:
  // Throws file_error that names `source` if the bytes are not a whole number of ids.
  TokenIds(std::span<const std::byte> bytes, IdWidth width, int32_t vocab_size, std::string source);

  int64_t size() const { return size_; }

  // Reads ids [first, first + out.size()), which must exist. Throws file_error that names the
  // position of an id outside the vocabulary.
  void read(int64_t first, std::span<int32_t> out) const;

 private:
  std::span<const std::byte> bytes_;
  IdWidth width_;
  int32_t vocab_size_;
  int64_t size_;
  std::string source_;
};

}  // namespace ridge::text
