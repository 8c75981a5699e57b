// SPDX-License-Identifier: Apache-2.0
// Remembered blocks form a tree: each has an identity, and is found by that of the block before it
// (of a first block: its tenant) and its own tokens.
#include "serve/sequence_blocks.h"

#include <algorithm>
#include <numeric>

#include "base/error.h"

namespace ridge::serve {

using models::kBlockTokens;

struct SequenceBlocks::Prefix {
  const Key* key = nullptr;
  uint64_t identity = 0;
  int32_t blocks[kKinds] = {BlockPool::kNone, BlockPool::kNone};  // that hold its last tokens
};

SequenceBlocks::SequenceBlocks(const models::CacheShape& shape,
                               const models::ModelConfig& config,
                               bool shares)
    : window_(config.window), shares_(shares) {
  const auto open = [&](Kind kind, bool exists, const models::CacheBlocks& of) {
    KindBlocks& made = kinds_[kind];
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

int64_t SequenceBlocks::blocks() const { return kinds_[counted()].pool.blocks(); }
int64_t SequenceBlocks::in_use() const { return blocks() - available(); }
int64_t SequenceBlocks::available() const { return kinds_[counted()].pool.free(); }

BlockState SequenceBlocks::state(int64_t block) const {
  const KindBlocks& of = kinds_[counted()];
  const int64_t users = of.pool.users(static_cast<int32_t>(block));
  if (users > 0) return users > 1 ? BlockState::kShared : BlockState::kUsed;
  return of.prefixes[static_cast<size_t>(block)] != nullptr ? BlockState::kCached
                                                            : BlockState::kFree;
}

int64_t SequenceBlocks::owned(int64_t at) const {
  const Kind kind = counted();
  const KindBlocks& of = kinds_[kind];
  const Slot& slot = slots_[static_cast<size_t>(at)];
  int64_t blocks = 0;
  for (int64_t block = slot.first[kind]; block < slot.end; ++block)
    blocks += of.pool.users(of.table[place(kind, at, block)]) == 1 ? 1 : 0;
  return blocks;
}

size_t SequenceBlocks::place(Kind kind, int64_t slot, int64_t block) const {
  const int64_t ring = kinds_[kind].ring;
  return static_cast<size_t>(slot * ring + block % ring);
}

void SequenceBlocks::release_block(Kind kind, int32_t id) {
  KindBlocks& of = kinds_[kind];
  of.pool.release(id, of.prefixes[static_cast<size_t>(id)] != nullptr);
}

int32_t SequenceBlocks::take(Kind kind) {
  const int32_t id = kinds_[kind].pool.take();
  RIDGE_CHECK(id != BlockPool::kNone, "no block is free of {}", kinds_[kind].pool.blocks());
  forget(kind, id);
  return id;
}

void SequenceBlocks::forget(Kind kind, int32_t id) {
  Prefix*& remembered = kinds_[kind].prefixes[static_cast<size_t>(id)];
  if (remembered == nullptr) return;
  Prefix& prefix = *std::exchange(remembered, nullptr);
  prefix.blocks[kind] = BlockPool::kNone;
  if (std::ranges::all_of(prefix.blocks, [](int32_t b) { return b == BlockPool::kNone; }))
    prefixes_.erase(prefixes_.find(*prefix.key));
}

// Last blocks first, so that they are taken before those with which more prefixes begin.
void SequenceBlocks::release(int64_t at) {
  Slot& slot = slots_[static_cast<size_t>(at)];
  for (Kind kind : {kFull, kWindow})
    for (int64_t block = slot.end; kinds_[kind].exists && block-- > slot.first[kind];)
      release_block(kind, entry(kind, at, block));
  slot = {};
}

// The first block to which the position after so many whole blocks attends in window layers.
int64_t SequenceBlocks::window_begin(int64_t blocks) const {
  return std::max<int64_t>(blocks * kBlockTokens - window_ + 1, 0) / kBlockTokens;
}

// The remembered blocks with which ids begin, fewer than all.
std::vector<SequenceBlocks::Prefix*> SequenceBlocks::find(std::span<const int32_t> ids,
                                                          uint32_t tenant) const {
  std::vector<Prefix*> found;
  uint64_t before = tenant;
  for (int64_t end = kBlockTokens; end < std::ssize(ids); end += kBlockTokens) {
    const auto part = ids.subspan(static_cast<size_t>(end - kBlockTokens), kBlockTokens);
    const auto next = prefixes_.find(Key{before, {part.begin(), part.end()}});
    if (next == prefixes_.end()) break;
    found.push_back(next->second.get());
    before = found.back()->identity;
  }
  return found;
}

// With how many of them a sequence can go on: full layers need each, window layers the last window.
int64_t SequenceBlocks::usable(const std::vector<Prefix*>& found) const {
  int64_t best = 0, held = 0;  // in window layers, one after the other
  for (int64_t count = 1; count <= std::ssize(found); ++count) {
    const Prefix& last = *found[static_cast<size_t>(count - 1)];
    if (kinds_[kFull].exists && last.blocks[kFull] == BlockPool::kNone) break;
    held = last.blocks[kWindow] == BlockPool::kNone ? 0 : held + 1;
    if (!kinds_[kWindow].exists || held >= count - window_begin(count)) best = count;
  }
  return best;
}

int64_t SequenceBlocks::begin(int64_t at, std::span<const int32_t> ids, uint32_t tenant) {
  release(at);
  Slot& slot = slots_[static_cast<size_t>(at)];
  slot.prefix = tenant;
  if (!shares_) return 0;
  const std::vector<Prefix*> found = find(ids, tenant);
  slot.whole = slot.end = usable(found);
  if (slot.end == 0) return 0;
  slot.prefix = found[static_cast<size_t>(slot.end - 1)]->identity;
  slot.first[kWindow] = window_begin(slot.end);
  for (Kind kind : {kFull, kWindow}) {
    for (int64_t block = slot.first[kind]; kinds_[kind].exists && block < slot.end; ++block) {
      const int32_t id = found[static_cast<size_t>(block)]->blocks[kind];
      kinds_[kind].pool.share(id);
      entry(kind, at, block) = id;
    }
  }
  changed_ = true;
  return slot.end * kBlockTokens;
}

int64_t SequenceBlocks::missing(int64_t slot, int64_t length) const {
  if (!shares_ || !kinds_[kFull].exists) return 0;  // a slot's ring is its own
  return std::max<int64_t>(models::blocks_of(length) - slots_[static_cast<size_t>(slot)].end, 0);
}

void SequenceBlocks::extend(int64_t at, int64_t length) {
  if (!shares_) return;
  Slot& slot = slots_[static_cast<size_t>(at)];
  for (const int64_t end = models::blocks_of(length); slot.end < end; ++slot.end) {
    for (Kind kind : {kFull, kWindow}) {
      if (!kinds_[kind].exists) continue;
      if (slot.end - slot.first[kind] == kinds_[kind].ring)
        release_block(kind, entry(kind, at, slot.first[kind]++));
      entry(kind, at, slot.end) = take(kind);
    }
    changed_ = true;
  }
}

void SequenceBlocks::append(int64_t at, std::span<const int32_t> ids) {
  if (!shares_) return;
  Slot& slot = slots_[static_cast<size_t>(at)];
  for (int32_t id : ids) {
    slot.tail.push_back(id);
    if (std::ssize(slot.tail) == kBlockTokens) remember(at);
  }
}

// The tail is a whole block. Where another block is remembered for the same, that one stays.
void SequenceBlocks::remember(int64_t at) {
  Slot& slot = slots_[static_cast<size_t>(at)];
  const auto [found, is_new] = prefixes_.try_emplace(Key{slot.prefix, slot.tail}, nullptr);
  if (is_new) {
    found->second = std::make_unique<Prefix>();
    found->second->key = &found->first;
    found->second->identity = ++last_identity_;
  }
  Prefix& prefix = *found->second;
  for (Kind kind : {kFull, kWindow}) {
    if (!kinds_[kind].exists || slot.whole < slot.first[kind]) continue;
    const int32_t id = entry(kind, at, slot.whole);
    Prefix*& remembered = kinds_[kind].prefixes[static_cast<size_t>(id)];
    if (prefix.blocks[kind] != BlockPool::kNone || remembered != nullptr) continue;
    prefix.blocks[kind] = id;
    remembered = &prefix;
  }
  slot.prefix = prefix.identity;
  slot.tail.clear();
  ++slot.whole;
}

}  // namespace ridge::serve
