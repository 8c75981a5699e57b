// SPDX-License-Identifier: Apache-2.0
// Remembers which full blocks of the KV cache hold which prefixes. Cached blocks form a tree: each
// has an identity and is found by the identity of the block before it (for a first block: its
// tenant) and its own tokens. The comparison is exact. Knows neither slots nor free blocks.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "serve/block_pool.h"

namespace ridge::serve {

enum LayerType { kFull, kWindow, kLayerTypes };
using LayerTypeBlocks = std::array<int32_t, kLayerTypes>;  // a block of each, or BlockPool::kNone

// The last block of a cached prefix.
struct Prefix {
  uint64_t identity = 0;
  LayerTypeBlocks blocks = {BlockPool::kNone, BlockPool::kNone};
};

class PrefixCache {
 public:
  // Takes the number of blocks of each layer type.
  explicit PrefixCache(std::array<int64_t, kLayerTypes> blocks);

  // Finds the cached blocks with which ids begin. At least one id stays without a block.
  std::vector<Prefix> find(std::span<const int32_t> ids, uint32_t tenant) const;
  // Adds the blocks that hold `tokens` after the prefix `before`, where the cache has none with the
  // same tokens and they hold no other prefix. Returns the identity of the longer prefix.
  uint64_t add(uint64_t before, const std::vector<int32_t>& tokens, const LayerTypeBlocks& blocks);
  // Forgets the prefix that a block holds, if any.
  void forget(LayerType type, int32_t block);
  bool holds(LayerType type, int32_t block) const {
    return held_[type][static_cast<size_t>(block)] != nullptr;
  }
  int64_t prefixes() const { return std::ssize(prefixes_); }

 private:
  // The key is the identity of the prefix before the block, and the block's tokens.
  using Prefixes = std::map<std::pair<uint64_t, std::vector<int32_t>>, Prefix>;

  Prefixes prefixes_;
  std::vector<Prefixes::value_type*> held_[kLayerTypes];  // the prefix of each block, or null
  uint64_t last_identity_ = UINT32_MAX;                   // Smaller identities are tenants.
};

}  // namespace ridge::serve
