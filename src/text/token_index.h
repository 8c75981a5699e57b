// SPDX-License-Identifier: Apache-2.0
// Maps a token's bytes to its id: a hash table over all strings in one block. Read-only once built.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace ridge::text {

class TokenIndex {
 public:
  TokenIndex() = default;
  explicit TokenIndex(size_t count);  // at most `count` strings fit

  // False if the string is already present. Empty strings are not stored (returns true).
  bool insert(std::string_view bytes, int32_t id);

  // -1 if the string is absent.
  int32_t find(std::string_view bytes) const {
    if (bytes.size() > longest_ || bytes.empty()) return -1;
    const IndexedToken& slot = slots_[place(bytes)];
    return slot.id;
  }

 private:
  // 16 bytes; the tag avoids most comparisons of bytes.
  struct IndexedToken {
    uint32_t tag = 0;
    uint32_t begin = 0;
    uint32_t size = 0;
    int32_t id = -1;
  };

  size_t place(std::string_view bytes) const;

  std::vector<IndexedToken> slots_;
  std::string bytes_;
  size_t longest_ = 0;
};

}  // namespace ridge::text
