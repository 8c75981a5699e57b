// SPDX-License-Identifier: Apache-2.0
// Calls libxxhash, whose functions are compiled into this file.
#define XXH_INLINE_ALL
#include "files/hash.h"

#include <fmt/format.h>
#include <xxhash.h>

namespace ridge::files {
namespace {

std::string digits(XXH128_hash_t hash) {
  return fmt::format("{:016x}{:016x}", uint64_t{hash.high64}, uint64_t{hash.low64});
}

}  // namespace

uint64_t hash64(std::span<const std::byte> bytes) {
  return XXH3_64bits(bytes.data(), bytes.size());
}

struct Hash128::State {
  XXH3_state_t state;
};

Hash128::Hash128() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->state); }
Hash128::~Hash128() = default;
Hash128::Hash128(Hash128&&) noexcept = default;
Hash128& Hash128::operator=(Hash128&&) noexcept = default;

void Hash128::update(std::span<const std::byte> bytes) {
  XXH3_128bits_update(&state_->state, bytes.data(), bytes.size());
}

std::string Hash128::hex() const { return digits(XXH3_128bits_digest(&state_->state)); }

std::string hash128(std::span<const std::byte> bytes) {
  return digits(XXH3_128bits(bytes.data(), bytes.size()));
}

}  // namespace ridge::files
