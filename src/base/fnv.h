// SPDX-License-Identifier: Apache-2.0
// The hash FNV-1a of 32 and 64 bits is the same in every run and build, so it may name files and
// random streams. It is not for hostile input, whose collisions are easy to make.
#pragma once

#include <concepts>
#include <cstdint>
#include <string_view>

namespace ridge {
inline namespace base {

// Source of the constants: http://www.isthe.com/chongo/tech/comp/fnv/.
template <std::unsigned_integral Hash>
inline constexpr Hash kFnvBasis = sizeof(Hash) == 4 ? Hash(2166136261u) : Hash(0xcbf29ce484222325u);

// Continues from `hash` with the bytes of `text`.
template <std::unsigned_integral Hash>
constexpr Hash fnv1a(std::string_view text, Hash hash = kFnvBasis<Hash>) {
  constexpr Hash kPrime = sizeof(Hash) == 4 ? Hash(16777619u) : Hash(0x100000001b3u);
  for (const char byte : text) hash = (hash ^ static_cast<unsigned char>(byte)) * kPrime;
  return hash;
}

}  // namespace base
}  // namespace ridge
