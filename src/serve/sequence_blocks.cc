// SPDX-License-Identifier: Apache-2.0
// Cached blocks form a tree. Each has an identity, and is found by the identity of the block before
// it (for a first block: its tenant) and its own tokens.
#include "serve/sequence_blocks.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ridge::serve {

using models::kBlockTokens;

struct SequenceBlocks::Prefix {
  const PrefixKey* key = nullptr;
  uint64_t identity = 0;
  int32_t blocks[kLayerTypes] = {BlockPool::kNone, BlockPool::kNone};  // blocks of its last tokens
};

SequenceBlocks::SequenceBlocks(const models::CacheShape& shape,
                               const models::ModelConfig& config,
                               bool shares)
    : window_(config.window), shares_(shares) {
  const auto open = [&](LayerType type, bool exists, const models::CacheBlocks& of) {
    LayerBlocks& made = layers_[type];
    made.exists = exists;
    made.ring = of.blocks_per_slot;
    made.pool = BlockPool(exists ? of.blocks : 0);
    made.table.assign(static_cast<size_t>(shape.slots * of.blocks_per_slot), 0);
    if (!shares) std::iota(made.table.begin(), made.table.end(), 0);
    made.prefixes.assign(static_cast<size_t>(made.pool.blocks()), nullptr);
  };
  open(kFull, config.has_full_layers(), shape.full);
  open(kWindow, config.has_window_layers(), shape.window);
  slots_.resize(static_cast<size_t>(shape.slots));
}

SequenceBlocks::~SequenceBlocks() = default;

int64_t SequenceBlocks::blocks() const { return layers_[counted()].pool.blocks(); }
int64_t SequenceBlocks::in_use() const { return blocks() - available(); }
int64_t SequenceBlocks::available() const { return layers_[counted()].pool.free(); }

BlockState SequenceBlocks::state(int64_t block) const {
  const LayerBlocks& of = layers_[counted()];
  const int64_t users = of.pool.users(static_cast<int32_t>(block));
  if (users > 0) return users > 1 ? BlockState::kShared : BlockState::kUsed;
  return of.prefixes[static_cast<size_t>(block)] != nullptr ? BlockState::kCached
                                                            : BlockState::kFree;
}

int64_t SequenceBlocks::owned(int64_t at) const {
  const LayerType type = counted();
  const LayerBlocks& of = layers_[type];
  const SlotBlocks& slot = slots_[static_cast<size_t>(at)];
  int64_t blocks = 0;
  for (int64_t block = slot.first[type]; block < slot.end; ++block)
    blocks += of.pool.users(of.table[place(type, at, block)]) == 1 ? 1 : 0;
  return blocks;
}

size_t SequenceBlocks::place(LayerType type, int64_t slot, int64_t block) const {
  const int64_t ring = layers_[type].ring;
  return static_cast<size_t>(slot * ring + block % ring);
}

void SequenceBlocks::release_block(LayerType type, int32_t id) {
  LayerBlocks& of = layers_[type];
  of.pool.release(id, of.prefixes[static_cast<size_t>(id)] != nullptr);
}

int32_t SequenceBlocks::take(LayerType type) {
  const int32_t id = layers_[type].pool.take();
  RIDGE_CHECK(id != BlockPool::kNone, "no block is free of {}", layers_[type].pool.blocks());
  forget(type, id);
  return id;
}

void SequenceBlocks::forget(LayerType type, int32_t id) {
  Prefix*& remembered = layers_[type].prefixes[static_cast<size_t>(id)];
  if (remembered == nullptr) return;
  Prefix& prefix = *std::exchange(remembered, nullptr);
  prefix.blocks[type] = BlockPool::kNone;
  if (std::ranges::all_of(prefix.blocks, [](int32_t b) { return b == BlockPool::kNone; }))
    prefixes_.erase(prefixes_.find(*prefix.key));
}

// Releases the last blocks first, so that they are reused before blocks that more prefixes share.
void SequenceBlocks::release(int64_t at) {
  SlotBlocks& slot = slots_[static_cast<size_t>(at)];
  for (LayerType type : {kFull, kWindow})
    for (int64_t block = slot.end; layers_[type].exists && block-- > slot.first[type];)
      release_block(type, entry(type, at, block));
  slot = {};
}

// The first block that window layers attend to from the position after `blocks` full blocks.
int64_t SequenceBlocks::window_begin(int64_t blocks) const {
  return std::max<int64_t>(blocks * kBlockTokens - window_ + 1, 0) / kBlockTokens;
}

// Finds the cached blocks with which ids begin. At least one id stays without a block.
std::vector<SequenceBlocks::Prefix*> SequenceBlocks::find(std::span<const int32_t> ids,
                                                          uint32_t tenant) const {
  std::vector<Prefix*> found;
  uint64_t before = tenant;
  for (int64_t end = kBlockTokens; end < std::ssize(ids); end += kBlockTokens) {
    const auto part = ids.subspan(static_cast<size_t>(end - kBlockTokens), kBlockTokens);
    const auto next = prefixes_.find(PrefixKey{before, {part.begin(), part.end()}});
    if (next == prefixes_.end()) break;
    found.push_back(next->second.get());
    before = found.back()->identity;
  }
  return found;
}

// Returns how many blocks are usable. Full layers need all of them, window layers the last window.
int64_t SequenceBlocks::usable(const std::vector<Prefix*>& found) const {
  int64_t best = 0, in_a_row = 0;  // in_a_row counts consecutive blocks of window layers.
  for (int64_t count = 1; count <= std::ssize(found); ++count) {
    const Prefix& last = *found[static_cast<size_t>(count - 1)];
    if (layers_[kFull].exists && last.blocks[kFull] == BlockPool::kNone) break;
    in_a_row = last.blocks[kWindow] == BlockPool::kNone ? 0 : in_a_row + 1;
    if (!layers_[kWindow].exists || in_a_row >= count - window_begin(count)) best = count;
  }
  return best;
}

int64_t SequenceBlocks::begin(int64_t at, std::span<const int32_t> ids, uint32_t tenant) {
  release(at);
  SlotBlocks& slot = slots_[static_cast<size_t>(at)];
  slot.prefix = tenant;
  if (!shares_) return 0;
  const std::vector<Prefix*> found = find(ids, tenant);
  slot.whole = slot.end = usable(found);
  if (slot.end == 0) return 0;
  slot.prefix = found[static_cast<size_t>(slot.end - 1)]->identity;
  slot.first[kWindow] = window_begin(slot.end);
  for (LayerType type : {kFull, kWindow}) {
    for (int64_t block = slot.first[type]; layers_[type].exists && block < slot.end; ++block) {
      const int32_t id = found[static_cast<size_t>(block)]->blocks[type];
      layers_[type].pool.share(id);
      entry(type, at, block) = id;
    }
  }
  changed_ = true;
  return slot.end * kBlockTokens;
}

int64_t SequenceBlocks::missing(int64_t slot, int64_t length) const {
  if (!shares_ || !layers_[kFull].exists) return 0;  // Each slot has its own ring.
  return std::max<int64_t>(models::blocks_of(length) - slots_[static_cast<size_t>(slot)].end, 0);
}

void SequenceBlocks::extend(int64_t at, int64_t length) {
  if (!shares_) return;
  SlotBlocks& slot = slots_[static_cast<size_t>(at)];
  for (const int64_t end = models::blocks_of(length); slot.end < end; ++slot.end) {
    for (LayerType type : {kFull, kWindow}) {
      if (!layers_[type].exists) continue;
      if (slot.end - slot.first[type] == layers_[type].ring)
        release_block(type, entry(type, at, slot.first[type]++));
      entry(type, at, slot.end) = take(type);
    }
    changed_ = true;
  }
}

void SequenceBlocks::append(int64_t at, std::span<const int32_t> ids) {
  if (!shares_) return;
  SlotBlocks& slot = slots_[static_cast<size_t>(at)];
  for (int32_t id : ids) {
    slot.tail.push_back(id);
    if (std::ssize(slot.tail) == kBlockTokens) remember(at);
  }
}

// Adds the slot's tail, now a full block, to the prefix cache, unless it has an equal block.
void SequenceBlocks::remember(int64_t at) {
  SlotBlocks& slot = slots_[static_cast<size_t>(at)];
  PrefixKey key{slot.prefix, slot.tail};
  auto found = prefixes_.find(key);
  if (found == prefixes_.end()) {
    auto made = std::make_unique<Prefix>();
    made->identity = ++last_identity_;
    found = prefixes_.emplace(std::move(key), std::move(made)).first;
    found->second->key = &found->first;
  }
  Prefix& prefix = *found->second;
  for (LayerType type : {kFull, kWindow}) {
    if (!layers_[type].exists || slot.whole < slot.first[type]) continue;
    const int32_t id = entry(type, at, slot.whole);
    Prefix*& remembered = layers_[type].prefixes[static_cast<size_t>(id)];
    if (prefix.blocks[type] != BlockPool::kNone || remembered != nullptr) continue;
    prefix.blocks[type] = id;
    remembered = &prefix;
  }
  slot.prefix = prefix.identity;
  slot.tail.clear();
  ++slot.whole;
}

}  // namespace ridge::serve
