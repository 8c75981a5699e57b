// SPDX-License-Identifier: Apache-2.0
// The blocks of each slot's sequence, and the prefixes that blocks of ended sequences still hold.
//
// A block holds kBlockTokens positions. Full layers keep all blocks of a sequence, window layers
// those in their ring; a block that the ring comes round to goes back. Whole blocks are remembered
// by the tokens before and in them, so that a sequence that begins alike shares them: a sequence
// writes only to blocks that are not whole yet, so shared blocks never change.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "models/cache_shape.h"
#include "models/config.h"
#include "serve/block_pool.h"

namespace ridge::serve {

// What a block holds, least used first: nothing, a remembered content that nobody uses, positions of
// one sequence, or of several.
enum class BlockState : uint8_t { kFree, kCached, kUsed, kShared };
inline constexpr size_t kBlockStates = 4;

class SequenceBlocks {
 public:
  // If sequences do not share, each slot keeps its blocks for ever.
  SequenceBlocks(const models::CacheShape& shape, const models::ModelConfig& config, bool shares);
  ~SequenceBlocks();

  // The slot's sequence ends, and one begins that starts with `ids`. Returns how many of them its
  // blocks hold: whole blocks, fewer than all ids. Prefixes are shared within a tenant only.
  int64_t begin(int64_t slot, std::span<const int32_t> ids, uint32_t tenant);
  // Blocks that the slot lacks for positions below `length`, of those that `available` counts.
  int64_t missing(int64_t slot, int64_t length) const;
  int64_t available() const;
  // Blocks, of those that `available` counts, that are free once the slot is released.
  int64_t owned(int64_t slot) const;
  // Gives the slot blocks for positions below `length`. At most available() may be missing.
  void extend(int64_t slot, int64_t length);
  // The sequence goes on with these ids, whose keys and values are computed.
  void append(int64_t slot, std::span<const int32_t> ids);
  void release(int64_t slot);

  // Entries of the block tables, [S, blocks_per_slot].
  std::span<const int32_t> full_table() const { return kinds_[kFull].table; }
  std::span<const int32_t> window_table() const { return kinds_[kWindow].table; }
  // Whether an entry changed since the last call.
  bool take_changes() { return std::exchange(changed_, false); }

  int64_t blocks() const;  // of full layers, or of window layers if there are no others
  int64_t in_use() const;  // of them, by sequences that have a slot
  BlockState state(int64_t block) const;                        // of one of them
  int64_t remembered() const { return std::ssize(prefixes_); }  // whole blocks that can be found

 private:
  enum Kind { kFull, kWindow, kKinds };
  struct Prefix;
  // The identity of the prefix before the block, and the block's tokens. Exact: no hash decides.
  using Key = std::pair<uint64_t, std::vector<int32_t>>;
  struct KindBlocks {
    bool exists = false;
    int64_t ring = 1;  // blocks of a slot
    BlockPool pool{0};
    std::vector<int32_t> table;     // of blocks, or of any valid one where there is none
    std::vector<Prefix*> prefixes;  // by block: what it is remembered as
  };
  // A slot has the blocks first[kind] to end - 1 of its sequence.
  struct Slot {
    int64_t first[kKinds] = {0, 0};
    int64_t end = 0;
    int64_t whole = 0;               // blocks that are computed
    std::vector<int32_t> tail = {};  // the ids after them
    uint64_t prefix = 0;             // their identity
  };

  Kind counted() const { return kinds_[kFull].exists ? kFull : kWindow; }
  int32_t& entry(Kind kind, int64_t slot, int64_t block) {
    return kinds_[kind].table[place(kind, slot, block)];
  }
  size_t place(Kind kind, int64_t slot, int64_t block) const;
  void release_block(Kind kind, int32_t id);
  int32_t take(Kind kind);
  void forget(Kind kind, int32_t id);
  int64_t window_begin(int64_t blocks) const;
  std::vector<Prefix*> find(std::span<const int32_t> ids, uint32_t tenant) const;
  int64_t usable(const std::vector<Prefix*>& found) const;
  void remember(int64_t slot);

  KindBlocks kinds_[kKinds];
  int64_t window_;
  bool shares_;
  bool changed_ = true;
  std::vector<Slot> slots_;
  std::map<Key, std::unique_ptr<Prefix>> prefixes_;
  uint64_t last_identity_ = UINT32_MAX;  // tenants come first
};

}  // namespace ridge::serve
