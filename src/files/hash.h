// SPDX-License-Identifier: Apache-2.0
// Hashes that notice damage: XXH3 in 64 and 128 bits, as `xxhsum -H3` and `-H2` print them. They do
// not resist somebody who wants two files of one hash.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

namespace ridge::files {

uint64_t hash64(std::span<const std::byte> bytes);

// The 128-bit hash of bytes that arrive in parts.
class Hash128 {
 public:
  Hash128();
  ~Hash128();
  Hash128(Hash128&&) noexcept;
  Hash128& operator=(Hash128&&) noexcept;

  void update(std::span<const std::byte> bytes);
  std::string hex() const;  // 32 digits; of the bytes so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string hash128(std::span<const std::byte> bytes);

}  // namespace ridge::files
