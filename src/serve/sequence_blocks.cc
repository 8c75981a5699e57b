// SPDX-License-Identifier: Apache-2.0
// Takes blocks from the pools of both layer types, and shares those of cached prefixes.
#include "serve/sequence_blocks.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ridge::serve {

using models::kBlockTokens;

LayerBlocks::LayerBlocks(const models::CacheBlocks& shape,
                         int64_t slots,
                         bool has_layers,
                         bool shares)
    : exists(has_layers),
      ring(shape.blocks_per_slot),
      pool(exists ? shape.blocks : 0),
      table(static_cast<size_t>(slots * ring), 0) {
  if (!shares) std::iota(table.begin(), table.end(), 0);
}

SequenceBlocks::SequenceBlocks(const models::CacheShape& shape,
                               const models::ModelConfig& config,
                               bool shares)
    : layers_{{shape.full, shape.slots, config.has_full_layers(), shares},
              {shape.window, shape.slots, config.has_window_layers(), shares}},
      window_(config.window),
      shares_(shares),
      slots_(static_cast<size_t>(shape.slots)),
      prefixes_({layers_[kFull].pool.blocks(), layers_[kWindow].pool.blocks()}) {}

BlockState SequenceBlocks::state(int64_t block) const {
  const auto id = static_cast<int32_t>(block);
  const int64_t users = layers_[counted()].pool.users(id);
  if (users > 0) return users > 1 ? BlockState::kShared : BlockState::kUsed;
  return prefixes_.holds(counted(), id) ? BlockState::kCached : BlockState::kFree;
}

int64_t SequenceBlocks::owned(int64_t slot) const {
  const LayerBlocks& of = layers_[counted()];
  int64_t blocks = 0;
  for (int64_t block = at(slot).first[counted()]; block < at(slot).end; ++block)
    blocks += of.pool.users(of.entry(slot, block)) == 1 ? 1 : 0;
  return blocks;
}

void SequenceBlocks::release_block(LayerType type, int32_t id) {
  layers_[type].pool.release(id, prefixes_.holds(type, id));
}

int32_t SequenceBlocks::take(LayerType type) {
  const int32_t id = layers_[type].pool.take();
  RIDGE_CHECK(id != BlockPool::kNone, "no block is free of {}", layers_[type].pool.blocks());
  prefixes_.forget(type, id);
  return id;
}

// Releases the last blocks first, so that they are reused before blocks that more prefixes share.
void SequenceBlocks::release(int64_t slot) {
  for (LayerType type : {kFull, kWindow})
    for (int64_t block = at(slot).end; layers_[type].exists && block-- > at(slot).first[type];)
      release_block(type, layers_[type].entry(slot, block));
  at(slot) = {};
}

// The first block that window layers attend to from the position after `blocks` full blocks.
int64_t SequenceBlocks::window_begin(int64_t blocks) const {
  return std::max<int64_t>(blocks * kBlockTokens - window_ + 1, 0) / kBlockTokens;
}

// Returns how many blocks are usable. Full layers need all of them, window layers the last window.
int64_t SequenceBlocks::usable(std::span<const Prefix> found) const {
  int64_t best = 0, in_a_row = 0;  // in_a_row counts consecutive blocks of window layers.
  for (int64_t count = 1; count <= std::ssize(found); ++count) {
    const Prefix& last = found[static_cast<size_t>(count - 1)];
    if (layers_[kFull].exists && last.blocks[kFull] == BlockPool::kNone) break;
    in_a_row = last.blocks[kWindow] == BlockPool::kNone ? 0 : in_a_row + 1;
    if (!layers_[kWindow].exists || in_a_row >= count - window_begin(count)) best = count;
  }
  return best;
}

int64_t SequenceBlocks::begin(int64_t at, std::span<const int32_t> ids, uint32_t tenant) {
  release(at);
  SlotBlocks& slot = this->at(at);
  slot.prefix = tenant;
  if (!shares_) return 0;
  const std::vector<Prefix> found = prefixes_.find(ids, tenant);
  slot.whole = slot.end = usable(found);
  if (slot.end == 0) return 0;
  slot.prefix = found[static_cast<size_t>(slot.end - 1)].identity;
  slot.first[kWindow] = window_begin(slot.end);
  for (LayerType type : {kFull, kWindow}) {
    for (int64_t block = slot.first[type]; layers_[type].exists && block < slot.end; ++block) {
      const int32_t id = found[static_cast<size_t>(block)].blocks[type];
      layers_[type].pool.share(id);
      layers_[type].entry(at, block) = id;
    }
  }
  changed_ = true;
  return slot.length = slot.cached = slot.end * kBlockTokens;
}

int64_t SequenceBlocks::missing(int64_t slot, int64_t length) const {
  if (!shares_ || !layers_[kFull].exists) return 0;  // Each slot has its own ring.
  return std::max<int64_t>(models::blocks_of(length) - at(slot).end, 0);
}

void SequenceBlocks::extend(int64_t at, int64_t length) {
  SlotBlocks& slot = this->at(at);
  slot.length = length;
  if (!shares_) return;
  for (const int64_t end = models::blocks_of(length); slot.end < end; ++slot.end) {
    for (LayerType type : {kFull, kWindow}) {
      LayerBlocks& layers = layers_[type];
      if (!layers.exists) continue;
      if (slot.end - slot.first[type] == layers.ring)
        release_block(type, layers.entry(at, slot.first[type]++));
      layers.entry(at, slot.end) = take(type);
    }
    changed_ = true;
  }
}

void SequenceBlocks::append(int64_t slot, std::span<const int32_t> ids) {
  if (!shares_) return;
  for (int32_t id : ids) {
    at(slot).tail.push_back(id);
    if (std::ssize(at(slot).tail) == kBlockTokens) remember(slot);
  }
}

std::vector<BlockCopy> SequenceBlocks::copy(int64_t from, int64_t to) {
  release(to);
  std::vector<BlockCopy> copies;
  for (LayerType type : {kFull, kWindow}) {
    LayerBlocks& layers = layers_[type];
    if (!layers.exists) continue;
    for (int64_t block = 0; !shares_ && block < layers.ring; ++block)
      copies.push_back({type, layers.entry(from, block), layers.entry(to, block)});
    for (int64_t block = at(from).first[type]; block < at(from).end; ++block) {
      const int32_t id = layers.entry(from, block);
      int32_t& made = layers.entry(to, block) = id;
      if (block < at(from).whole)
        layers.pool.share(id);
      else
        copies.push_back({type, id, made = take(type)});
    }
  }
  changed_ = changed_ || shares_;
  at(to) = at(from);
  return copies;
}

// Adds the slot's tail, now a full block, to the prefix cache.
void SequenceBlocks::remember(int64_t at) {
  SlotBlocks& slot = this->at(at);
  LayerTypeBlocks blocks = Prefix().blocks;
  for (LayerType type : {kFull, kWindow})
    if (layers_[type].exists && slot.whole >= slot.first[type])
      blocks[type] = layers_[type].entry(at, slot.whole);
  slot.prefix = prefixes_.add(slot.prefix, slot.tail, blocks);
  slot.tail.clear();
  ++slot.whole;
}

}  // namespace ridge::serve
