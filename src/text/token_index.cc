// SPDX-License-Identifier: Apache-2.0
// Linear probing at a load of at most one half.
#include "text/token_index.h"

#include <algorithm>
#include <bit>

#include "base/error.h"
#include "text/pair_table.h"

namespace ridge::text {

TokenIndex::TokenIndex(size_t count) : slots_(std::bit_ceil(count * 2 + 2)) {}

size_t TokenIndex::place(std::string_view bytes) const {
  uint64_t hash = hash_bytes(bytes);
  auto tag = static_cast<uint32_t>(hash >> 32);
  size_t mask = slots_.size() - 1;
  size_t i = hash & mask;
  while (slots_[i].id >= 0) {
    const IndexedToken& slot = slots_[i];
    if (slot.tag == tag && slot.size == bytes.size() &&
        std::string_view(bytes_).substr(slot.begin, slot.size) == bytes)
      return i;
    i = (i + 1) & mask;
  }
  return i;
}

bool TokenIndex::insert(std::string_view bytes, int32_t id) {
  if (bytes.empty()) return true;
  IndexedToken& slot = slots_[place(bytes)];
  if (slot.id >= 0) return false;
  RIDGE_CHECK(bytes_.size() + bytes.size() <= UINT32_MAX, "offsets of tokens exceed 32 bits");
  slot = {static_cast<uint32_t>(hash_bytes(bytes) >> 32), static_cast<uint32_t>(bytes_.size()),
          static_cast<uint32_t>(bytes.size()), id};
  bytes_.append(bytes);
  longest_ = std::max(longest_, bytes.size());
  return true;
}

}  // namespace ridge::text
