// SPDX-License-Identifier: Apache-2.0
// The block tables of all slots, and the prefix cache, which keeps blocks until they are reused.
//
// A block holds kBlockTokens positions. Full layers keep all blocks of a sequence; window layers
// keep a ring of blocks and release the oldest. A full block is remembered by its tokens and all
// tokens before them, and sequences with the same prefix share it. A sequence writes only to blocks
// that are not full yet, so shared blocks never change.
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

// The use of a block, ascending: empty, cached without a user, used by one sequence, or shared.
enum class BlockState : uint8_t { kFree, kCached, kUsed, kShared };
inline constexpr size_t kBlockStates = 4;

class SequenceBlocks {
 public:
  // Without sharing, each slot always has the same blocks.
  SequenceBlocks(const models::CacheShape& shape, const models::ModelConfig& config, bool shares);
  ~SequenceBlocks();

  // Ends the slot's sequence and begins one that starts with `ids`. Returns the number of cached
  // tokens: full blocks, fewer than all ids. Prefixes are shared only within a tenant.
  int64_t begin(int64_t slot, std::span<const int32_t> ids, uint32_t tenant);
  // The number of blocks that the slot lacks for positions below `length`.
  int64_t missing(int64_t slot, int64_t length) const;
  // The number of free blocks.
  int64_t available() const;
  // The number of blocks that become free when the slot is released.
  int64_t owned(int64_t slot) const;
  // Gives the slot blocks for positions below `length`. At most available() blocks may be missing.
  void extend(int64_t slot, int64_t length);
  // Adds ids whose keys and values are computed to the slot's sequence.
  void append(int64_t slot, std::span<const int32_t> ids);
  void release(int64_t slot);

  // The block tables, [S, blocks_per_slot].
  std::span<const int32_t> full_table() const { return layers_[kFull].table; }
  std::span<const int32_t> window_table() const { return layers_[kWindow].table; }
  // Returns whether an entry has changed since the last call.
  bool take_changes() { return std::exchange(changed_, false); }

  // These count the blocks of full layers, or of window layers if there are no full ones; so do
  // available(), missing() and owned().
  int64_t blocks() const;
  int64_t in_use() const;  // blocks of sequences that have a slot
  BlockState state(int64_t block) const;
  int64_t remembered() const { return std::ssize(prefixes_); }  // full blocks in the prefix cache

 private:
  enum LayerType { kFull, kWindow, kLayerTypes };
  struct Prefix;
  // The identity of the prefix before the block, and the block's tokens. The comparison is exact.
  using PrefixKey = std::pair<uint64_t, std::vector<int32_t>>;
  struct LayerBlocks {
    bool exists = false;
    int64_t ring = 1;  // most blocks of a slot
    BlockPool pool{0};
    std::vector<int32_t> table;     // block ids; entries that no sequence uses hold any valid id
    std::vector<Prefix*> prefixes;  // prefix that each block caches, or null
  };
  // The slot has the blocks first[layer type] to end - 1 of its sequence.
  struct SlotBlocks {
    int64_t first[kLayerTypes] = {0, 0};
    int64_t end = 0;
    int64_t whole = 0;               // number of full blocks
    std::vector<int32_t> tail = {};  // ids after the full blocks
    uint64_t prefix = 0;             // identity of the full blocks
  };

  LayerType counted() const { return layers_[kFull].exists ? kFull : kWindow; }
  int32_t& entry(LayerType type, int64_t slot, int64_t block) {
    return layers_[type].table[place(type, slot, block)];
  }
  size_t place(LayerType type, int64_t slot, int64_t block) const;
  void release_block(LayerType type, int32_t id);
  int32_t take(LayerType type);
  void forget(LayerType type, int32_t id);
  int64_t window_begin(int64_t blocks) const;
  std::vector<Prefix*> find(std::span<const int32_t> ids, uint32_t tenant) const;
  int64_t usable(const std::vector<Prefix*>& found) const;
  void remember(int64_t slot);

  LayerBlocks layers_[kLayerTypes];
  int64_t window_;
  bool shares_;
  bool changed_ = true;
  std::vector<SlotBlocks> slots_;
  std::map<PrefixKey, std::unique_ptr<Prefix>> prefixes_;
  uint64_t last_identity_ = UINT32_MAX;  // Smaller identities are tenants.
};

}  // namespace ridge::serve
