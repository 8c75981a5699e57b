// SPDX-License-Identifier: Apache-2.0
// A hash table from pairs of token ids to a small value (open addressing, no deletion), and the
// hash of byte strings that other files of text/ use. Not a general container.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

namespace ridge::text {

inline uint64_t mix(uint64_t x) {
  // The finaliser of SplitMix64: every input bit reaches every output bit.
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  return x ^ (x >> 31);
}

inline uint64_t hash_bytes(std::string_view bytes) {
  uint64_t h = mix(bytes.size() + 0x9E3779B97F4A7C15ull);
  size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    uint64_t word;
    std::memcpy(&word, bytes.data() + at, 8);
    h = mix(h ^ word);
  }
  if (at < bytes.size()) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, bytes.size() - at);
    h = mix(h ^ word);
  }
  return h;
}

// Keys are pairs of non-negative ids.
template <typename V>
class PairTable {
 public:
  PairTable() : slots_(kSmallest) {}

  void reserve(size_t pairs) {
    size_t wanted = std::bit_ceil(std::max(kSmallest, pairs * 2));
    if (wanted > slots_.size()) rehash(wanted);
  }

  size_t size() const { return size_; }

  const V* find(int32_t left, int32_t right) const {
    const KeyValue& slot = slots_[place(key_of(left, right))];
    return slot.key == kEmpty ? nullptr : &slot.value;
  }

  // The value of the pair, value-initialised if new, and whether the pair is new.
  std::pair<V&, bool> insert(int32_t left, int32_t right) {
    if ((size_ + 1) * 2 > slots_.size()) rehash(slots_.size() * 2);
    uint64_t key = key_of(left, right);
    KeyValue& slot = slots_[place(key)];
    bool fresh = slot.key == kEmpty;
    if (fresh) {
      slot.key = key;
      ++size_;
    }
    return {slot.value, fresh};
  }

 private:
  static constexpr uint64_t kEmpty = ~0ull;  // no pair of non-negative ids
  static constexpr size_t kSmallest = 16;
  struct KeyValue {
    uint64_t key = kEmpty;
    V value{};
  };

  static uint64_t key_of(int32_t left, int32_t right) {
    return (static_cast<uint64_t>(static_cast<uint32_t>(left)) << 32) |
           static_cast<uint32_t>(right);
  }

  size_t place(uint64_t key) const {
    size_t mask = slots_.size() - 1;
    size_t i = mix(key) & mask;
    while (slots_[i].key != kEmpty && slots_[i].key != key) i = (i + 1) & mask;
    return i;
  }

  void rehash(size_t count) {
    std::vector<KeyValue> old(count);
    old.swap(slots_);
    for (KeyValue& slot : old)
      if (slot.key != kEmpty) slots_[place(slot.key)] = std::move(slot);
  }

  std::vector<KeyValue> slots_;
  size_t size_ = 0;
};

}  // namespace ridge::text
