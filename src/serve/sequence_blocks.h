// SPDX-License-Identifier: Apache-2.0
// The computed positions of the sequences in all slots, and the block tables that place them in the
// KV cache.
//
// A block holds kBlockTokens positions. Full layers keep all blocks of a sequence; window layers
// keep a ring of blocks and release the oldest. The prefix cache remembers full blocks, and
// sequences with the same prefix share them. A sequence writes only to blocks that are not full
// yet, so shared blocks never change.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "models/cache_shape.h"
#include "models/config.h"
#include "serve/block_pool.h"
#include "serve/prefix_cache.h"

namespace ridge::serve {

// The use of a block, ascending: empty, cached without a user, used by one sequence, or shared.
enum class BlockState : uint8_t { kFree, kCached, kUsed, kShared };
inline constexpr size_t kBlockStates = 4;

// The blocks of one kind of layer, and the table that gives them to slots.
struct LayerBlocks {
  LayerBlocks(const models::CacheBlocks& shape, int64_t slots, bool has_layers, bool shares);
  size_t place(int64_t slot, int64_t block) const {
    return static_cast<size_t>(slot * ring + block % ring);
  }
  int32_t& entry(int64_t slot, int64_t block) { return table[place(slot, block)]; }
  int32_t entry(int64_t slot, int64_t block) const { return table[place(slot, block)]; }

  bool exists;
  int64_t ring;  // most blocks of a slot
  BlockPool pool;
  std::vector<int32_t> table;  // block ids; entries that no sequence uses hold any valid id
};

// A block whose content another one gets.
struct BlockCopy {
  LayerType type;
  int32_t from = 0, to = 0;
};

class SequenceBlocks {
 public:
  // Without sharing, each slot always has the same blocks.
  SequenceBlocks(const models::CacheShape& shape, const models::ModelConfig& config, bool shares);

  // Ends the slot's sequence and begins one that starts with `ids`. Its length is the number of
  // cached tokens, which is returned: full blocks, fewer than all ids. Prefixes are shared only
  // within a tenant.
  int64_t begin(int64_t slot, std::span<const int32_t> ids, uint32_t tenant);
  // Gives the slot blocks up to its new length, before the run that fills them. At most available()
  // blocks may be missing.
  void extend(int64_t slot, int64_t length);
  // Adds ids whose keys and values are computed to the slot's sequence.
  void append(int64_t slot, std::span<const int32_t> ids);
  // Goes back to a length. Only without sharing.
  void shorten(int64_t slot, int64_t length) { at(slot).length = length; }
  void release(int64_t slot);
  // Gives a slot another one's sequence. Shares full blocks, if any; returns those to be copied.
  std::vector<BlockCopy> copy(int64_t from, int64_t to);

  // The number of computed positions of the slot's sequence.
  int64_t length(int64_t slot) const { return at(slot).length; }
  // The number of ids at the start of the sequence that `begin` found in the prefix cache.
  int64_t cached_tokens(int64_t slot) const { return at(slot).cached; }
  // The number of blocks that the slot lacks for positions below `length`.
  int64_t missing(int64_t slot, int64_t length) const;
  // The number of free blocks.
  int64_t available() const { return layers_[counted()].pool.free(); }
  // The number of blocks that become free when the slot is released.
  int64_t owned(int64_t slot) const;

  // The block tables, [S, blocks_per_slot].
  std::span<const int32_t> full_table() const { return layers_[kFull].table; }
  std::span<const int32_t> window_table() const { return layers_[kWindow].table; }
  // Returns whether an entry has changed since the last call.
  bool take_changes() { return std::exchange(changed_, false); }

  // These count the blocks of full layers, or of window layers if there are no full ones; so do
  // available(), missing() and owned().
  int64_t blocks() const { return layers_[counted()].pool.blocks(); }
  int64_t in_use() const { return blocks() - available(); }  // blocks of sequences that have a slot
  BlockState state(int64_t block) const;
  int64_t remembered() const { return prefixes_.prefixes(); }  // full blocks in the prefix cache

 private:
  // The slot has the blocks first[layer type] to end - 1 of its sequence.
  struct SlotBlocks {
    int64_t length = 0, cached = 0;
    int64_t first[kLayerTypes] = {0, 0};
    int64_t end = 0;
    int64_t whole = 0;               // number of full blocks
    std::vector<int32_t> tail = {};  // ids after the full blocks
    uint64_t prefix = 0;             // identity of the full blocks
  };

  LayerType counted() const { return layers_[kFull].exists ? kFull : kWindow; }
  const SlotBlocks& at(int64_t slot) const { return slots_[static_cast<size_t>(slot)]; }
  SlotBlocks& at(int64_t slot) { return slots_[static_cast<size_t>(slot)]; }
  void release_block(LayerType type, int32_t id);
  int32_t take(LayerType type);
  int64_t window_begin(int64_t blocks) const;
  int64_t usable(std::span<const Prefix> found) const;
  void remember(int64_t slot);

  LayerBlocks layers_[kLayerTypes];
  int64_t window_;
  bool shares_;
  bool changed_ = true;
  std::vector<SlotBlocks> slots_;
  PrefixCache prefixes_;
};

}  // namespace ridge::serve
