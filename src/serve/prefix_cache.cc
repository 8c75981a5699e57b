// SPDX-License-Identifier: Apache-2.0
// A map of prefixes, and which of them each block holds.
#include "serve/prefix_cache.h"

#include "models/cache_shape.h"

namespace ridge::serve {

using models::kBlockTokens;

PrefixCache::PrefixCache(std::array<int64_t, kLayerTypes> blocks) {
  for (LayerType type : {kFull, kWindow})
    held_[type].assign(static_cast<size_t>(blocks[type]), nullptr);
}

std::vector<Prefix> PrefixCache::find(std::span<const int32_t> ids, uint32_t tenant) const {
  std::vector<Prefix> found;
  uint64_t before = tenant;
  for (int64_t end = kBlockTokens; end < std::ssize(ids); end += kBlockTokens) {
    const auto part = ids.subspan(static_cast<size_t>(end - kBlockTokens), kBlockTokens);
    const auto next = prefixes_.find({before, {part.begin(), part.end()}});
    if (next == prefixes_.end()) break;
    found.push_back(next->second);
    before = found.back().identity;
  }
  return found;
}

uint64_t PrefixCache::add(uint64_t before,
                          const std::vector<int32_t>& tokens,
                          const LayerTypeBlocks& blocks) {
  const auto [place, is_new] = prefixes_.try_emplace({before, tokens});
  Prefix& prefix = place->second;
  if (is_new) prefix.identity = ++last_identity_;
  for (LayerType type : {kFull, kWindow}) {
    const int32_t block = blocks[type];
    if (block == BlockPool::kNone || prefix.blocks[type] != BlockPool::kNone || holds(type, block))
      continue;
    prefix.blocks[type] = block;
    held_[type][static_cast<size_t>(block)] = &*place;
  }
  return prefix.identity;
}

void PrefixCache::forget(LayerType type, int32_t block) {
  auto* const held = std::exchange(held_[type][static_cast<size_t>(block)], nullptr);
  if (held == nullptr) return;
  held->second.blocks[type] = BlockPool::kNone;
  if (held->second.blocks == Prefix().blocks) prefixes_.erase(prefixes_.find(held->first));
}

}  // namespace ridge::serve
