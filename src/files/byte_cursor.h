// SPDX-License-Identifier: Apache-2.0
// Reads a binary header from front to back. Every read is checked against the bytes left before
// anything is allocated.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "base/error.h"

namespace ridge::files {

class ByteCursor {
 public:
  static_assert(std::endian::native == std::endian::little, "GGUF is read as little endian");

  // `source` names the file in messages and must outlive the cursor.
  ByteCursor(std::span<const std::byte> bytes, std::string_view source)
      : bytes_(bytes), source_(source) {}

  // Sets what the following fields belong to ("tensor \"x\""), for messages.
  void set_context(std::string context) { context_ = std::move(context); }

  template <typename T>
  T read(const char* field) {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, take(sizeof(T), field).data(), sizeof(T));
    return value;
  }

  std::span<const std::byte> take(uint64_t size, const char* field) {
    if (size > remaining())
      throw fault("{}: expected {} bytes at offset {}, {} are left", field, size, offset_,
                  remaining());
    const auto part = bytes_.subspan(offset_, size);
    offset_ += size;
    return part;
  }

  // Reads a count of items of at least min_bytes each; throws if the remaining bytes cannot hold
  // them.
  uint64_t read_count(const char* field, uint64_t min_bytes) {
    const auto count = read<uint64_t>(field);
    if (count > remaining() / min_bytes)
      throw fault("{} says {}, the {} bytes left hold at most {}", field, count, remaining(),
                  remaining() / min_bytes);
    return count;
  }

  std::string_view read_string(const char* field) {
    const auto part = take(read_count(field, 1), field);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

  uint64_t offset() const { return offset_; }
  uint64_t remaining() const { return bytes_.size() - offset_; }
  std::span<const std::byte> since(uint64_t begin) const {
    return bytes_.subspan(begin, offset_ - begin);
  }

  template <typename... Args>
  Error fault(fmt::format_string<Args...> format, Args&&... args) const {
    return file_error("[{}] {}{}{}", source_, context_, context_.empty() ? "" : ": ",
                      fmt::format(format, std::forward<Args>(args)...));
  }

 private:
  std::span<const std::byte> bytes_;
  std::string_view source_;
  std::string context_;
  size_t offset_ = 0;
};

}  // namespace ridge::files
