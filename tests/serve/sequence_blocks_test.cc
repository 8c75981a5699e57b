// SPDX-License-Identifier: Apache-2.0
// Blocks of sequences, without a model: what is shared, what is given back, and that no block has
// two contents. BlockPool's order is tested here too.
#include "serve/sequence_blocks.h"

#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>

#include "base/error.h"

namespace ridge::serve {
namespace {

using models::kBlockTokens;
using Ids = std::vector<int32_t>;

Ids ids(int32_t first, int64_t count) {
  Ids made(static_cast<size_t>(count));
  std::iota(made.begin(), made.end(), first);
  return made;
}

TEST(BlockPool, TakesWhatIsNotKeptAndThenWhatWasLeftAloneLongest) {
  BlockPool pool(4);
  EXPECT_EQ(pool.free(), 4);
  for (int32_t block = 0; block < 4; ++block) EXPECT_EQ(pool.take(), block);
  EXPECT_EQ(pool.take(), BlockPool::kNone);
  pool.release(2, true);
  pool.release(0, true);
  pool.release(1, false);
  pool.share(2);  // and so it is not free
  pool.share(2);
  EXPECT_EQ(pool.users(2), 2);
  EXPECT_EQ(pool.free(), 2);
  EXPECT_EQ(pool.take(), 1);
  EXPECT_EQ(pool.take(), 0);
  pool.release(2, true);
  EXPECT_EQ(pool.take(), BlockPool::kNone);
  pool.release(2, true);
  EXPECT_EQ(pool.take(), 2);
}

constexpr int64_t kSlots = 3, kCapacity = 200, kChunk = 24;

// One layer that attends to all positions, one of a window, or both.
enum class Layers { kFull, kWindow, kBoth };

models::ModelConfig config(Layers layers, int64_t window = 40) {
  models::ModelConfig made;
  made.window = layers == Layers::kFull ? 0 : window;
  made.is_window_layer = {layers != Layers::kFull};
  if (layers == Layers::kBoth) made.is_window_layer.push_back(false);
  made.layers = std::ssize(made.is_window_layer);
  return made;
}

models::CacheShape shape(const models::ModelConfig& of, int64_t positions = 0) {
  return models::cache_shape({.slots = kSlots,
                              .capacity = kCapacity,
                              .window = of.window,
                              .chunk = kChunk,
                              .shares = true,
                              .kv_capacity_tokens = positions});
}

// The memory of a cache, in which a position holds all tokens up to it, and sequences that write to
// it as runs do.
class Memory {
 public:
  Memory(Layers layers, int64_t positions)
      : config_(config(layers)),
        shape_(shape(config_, positions)),
        blocks_(shape_, config_, true),
        sequences_(kSlots) {}

  SequenceBlocks& blocks() { return blocks_; }
  const Ids& sequence(int64_t slot) const { return sequences_[static_cast<size_t>(slot)]; }

  int64_t begin(int64_t slot, const Ids& prompt, uint32_t tenant) {
    const int64_t held = blocks_.begin(slot, prompt, tenant);
    EXPECT_LT(held, std::ssize(prompt));
    sequences_[static_cast<size_t>(slot)].assign(prompt.begin(), prompt.begin() + held);
    tenants_[slot] = tenant;
    check(slot);
    return held;
  }
  // False if there are no blocks.
  bool run(int64_t slot, const Ids& more) {
    Ids& all = sequences_[static_cast<size_t>(slot)];
    const int64_t length = std::ssize(all) + std::ssize(more);
    if (blocks_.missing(slot, length) > blocks_.available()) return false;
    blocks_.extend(slot, length);
    for (int32_t id : more) {
      all.push_back(id);
      const int64_t position = std::ssize(all) - 1;
      const Ids content = content_at(slot, position);
      if (config_.has_full_layers()) full_[cell(slot, position, false)] = content;
      if (config_.has_window_layers()) window_[cell(slot, position, true)] = content;
    }
    blocks_.append(slot, more);
    check(slot);
    return true;
  }
  void release(int64_t slot) {
    const int64_t expected = blocks_.available() + blocks_.owned(slot);
    blocks_.release(slot);
    EXPECT_EQ(blocks_.available(), expected);
    sequences_[static_cast<size_t>(slot)].clear();
  }
  // Checks that all is there that the next token of the slot attends to.
  void check(int64_t slot) {
    const int64_t length = std::ssize(sequence(slot));
    for (int64_t p = 0; p < length; ++p) {
      if (config_.has_full_layers()) {
        ASSERT_EQ(full_[cell(slot, p, false)], content_at(slot, p)) << p << " of " << length;
      }
      if (config_.has_window_layers() && p > length - config_.window) {
        ASSERT_EQ(window_[cell(slot, p, true)], content_at(slot, p)) << p << " of " << length;
      }
    }
  }

 private:
  Ids content_at(int64_t slot, int64_t position) {
    Ids content(sequence(slot).begin(), sequence(slot).begin() + position + 1);
    content.push_back(-static_cast<int32_t>(tenants_[slot]));
    return content;
  }
  int64_t cell(int64_t slot, int64_t position, bool window) const {
    const models::CacheBlocks& of = window ? shape_.window : shape_.full;
    const auto table = window ? blocks_.window_table() : blocks_.full_table();
    const int64_t at = position % of.ring();
    return table[static_cast<size_t>(slot * of.blocks_per_slot + at / kBlockTokens)] *
               kBlockTokens +
           at % kBlockTokens;
  }

  models::ModelConfig config_;
  models::CacheShape shape_;
  SequenceBlocks blocks_;
  std::vector<Ids> sequences_;
  std::map<int64_t, uint32_t> tenants_;
  std::map<int64_t, Ids> full_, window_;
};

TEST(SequenceBlocks, WhatBeginsAlikeSharesWholeBlocks) {
  Memory memory(Layers::kFull, 0);
  const Ids prompt = ids(0, 40);
  EXPECT_EQ(memory.begin(0, prompt, 0), 0);
  memory.run(0, ids(0, 24));
  EXPECT_EQ(memory.begin(1, prompt, 0), 16);  // while the first one runs
  memory.run(0, ids(24, 16));
  EXPECT_EQ(memory.blocks().in_use(), 3);
  EXPECT_EQ(memory.begin(2, ids(0, 48), 0), 32);
  EXPECT_EQ(memory.begin(2, ids(0, 32), 0), 16) << "the last token is computed";
  EXPECT_EQ(memory.begin(2, prompt, 1), 0) << "another tenant";
  Ids other = prompt;
  other[17] = 7;
  EXPECT_EQ(memory.begin(2, other, 0), 16);
  for (int64_t slot = 0; slot < kSlots; ++slot) memory.release(slot);
  EXPECT_EQ(memory.blocks().in_use(), 0);
  EXPECT_EQ(memory.blocks().remembered(), 2);
  EXPECT_EQ(memory.begin(1, prompt, 0), 32);
  EXPECT_EQ(memory.blocks().in_use(), 2);
}

TEST(SequenceBlocks, AWindowNeedsOnlyItsLastBlocks) {
  for (Layers layers : {Layers::kWindow, Layers::kBoth}) {
    Memory memory(layers, 0);
    const Ids prompt = ids(0, 180);
    memory.begin(0, prompt, 0);
    for (int32_t at = 0; at < 180; at += 20) ASSERT_TRUE(memory.run(0, ids(at, 20)));
    memory.release(0);
    EXPECT_EQ(memory.begin(1, prompt, 0), 176);
    ASSERT_TRUE(memory.run(1, ids(176, 4)));
  }
}

TEST(SequenceBlocks, FullMemoryForgetsWhatWasLeftAloneLongest) {
  Memory memory(Layers::kFull, 13 * kBlockTokens);
  for (int32_t first : {0, 1000, 2000}) {
    memory.begin(0, ids(first, 65), 0);
    for (int32_t at = 0; at < 64; at += 16) ASSERT_TRUE(memory.run(0, ids(first + at, 16)));
  }
  memory.begin(1, ids(9000, 40), 0);
  ASSERT_TRUE(memory.run(1, ids(9000, 20)));
  ASSERT_TRUE(memory.run(1, ids(9020, 20)));
  // The last two blocks of the first one were taken.
  EXPECT_EQ(memory.begin(2, ids(0, 65), 0), 32);
  EXPECT_EQ(memory.begin(2, ids(1000, 65), 0), 64);
  EXPECT_EQ(memory.blocks().missing(0, kCapacity), 13 - 4);
  EXPECT_FALSE(memory.run(0, ids(5000, 100)));
}

// Sequences of few distinct tokens, so that they often begin alike, in memory that is too small.
TEST(SequenceBlocks, NoBlockHasTwoContents) {
  for (Layers layers : {Layers::kFull, Layers::kWindow, Layers::kBoth}) {
    Memory memory(layers, 20 * kBlockTokens);
    std::mt19937 random(7);
    const auto below = [&](int64_t bound) {
      return static_cast<int64_t>(random() % static_cast<uint64_t>(bound));
    };
    int64_t shared = 0;
    std::vector<Ids> wanted(kSlots);
    for (int step = 0; step < 3000 && !testing::Test::HasFatalFailure(); ++step) {
      const int64_t slot = below(kSlots);
      Ids& all = wanted[static_cast<size_t>(slot)];
      const int64_t done = std::ssize(memory.sequence(slot));
      if (done == std::ssize(all)) {
        const int64_t kind = below(4);
        all = ids(static_cast<int32_t>(100 * below(3)), 1 + below(kCapacity));
        if (kind == 0) std::fill(all.begin() + std::ssize(all) / 2, all.end(), 5);
        shared += memory.begin(slot, all, static_cast<uint32_t>(below(2)));
        continue;
      }
      const int64_t count = 1 + below(std::min(kChunk, std::ssize(all) - done));
      if (!memory.run(slot, Ids(all.begin() + done, all.begin() + done + count))) {
        memory.release(slot);
        all.clear();
      }
    }
    EXPECT_GT(shared, 1000);
    for (int64_t slot = 0; slot < kSlots; ++slot) memory.release(slot);
    EXPECT_EQ(memory.blocks().in_use(), 0);
  }
}

TEST(SequenceBlocks, ACopySharesWholeBlocksAndCopiesTheLast) {
  for (const auto layers : {Layers::kFull, Layers::kWindow}) {
    const models::ModelConfig of = config(layers);
    const LayerType type = layers == Layers::kFull ? kFull : kWindow;
    SequenceBlocks blocks(shape(of, 13 * kBlockTokens), of, true);
    const auto add = [&](int64_t slot, const Ids& more) {
      blocks.extend(slot, blocks.length(slot) + std::ssize(more));
      blocks.append(slot, more);
    };
    blocks.begin(0, ids(0, 40), 0);
    add(0, ids(0, 20)), add(0, ids(20, 20));
    blocks.begin(1, ids(500, 20), 0);
    add(1, ids(500, 20));
    EXPECT_EQ(blocks.in_use(), 5);
    blocks.take_changes();
    const std::vector<BlockCopy> copies = blocks.copy(0, 1);  // its own block ends
    EXPECT_TRUE(blocks.take_changes());
    const auto table = layers == Layers::kFull ? blocks.full_table() : blocks.window_table();
    const size_t second = table.size() / kSlots;
    ASSERT_EQ(copies.size(), 1u);
    EXPECT_EQ(copies[0].type, type);
    EXPECT_EQ(copies[0].from, table[2]);
    EXPECT_EQ(copies[0].to, table[second + 2]);
    EXPECT_NE(copies[0].from, copies[0].to);
    for (const size_t block : {size_t{0}, size_t{1}}) {
      EXPECT_EQ(table[second + block], table[block]);
      EXPECT_EQ(blocks.state(table[block]), BlockState::kShared);
    }
    EXPECT_EQ(blocks.state(copies[0].from), BlockState::kUsed);
    EXPECT_EQ(blocks.in_use(), 4);
    EXPECT_EQ(blocks.owned(0), 1);
    EXPECT_EQ(blocks.owned(1), 1);
    EXPECT_EQ(blocks.length(1), 40);
    add(1, ids(40, 8));  // fills the copied block
    EXPECT_EQ(blocks.length(0), 40);
    blocks.release(0), blocks.release(1);
    EXPECT_EQ(blocks.in_use(), 0);
  }
}

// Each slot has blocks of its own, of which all are copied.
TEST(SequenceBlocks, ACopyThatSharesNothingCopiesAll) {
  const models::ModelConfig of = config(Layers::kBoth);
  models::CacheNeeds needs;
  needs.slots = kSlots, needs.capacity = 40, needs.window = of.window, needs.chunk = 8;
  needs.pages = true;
  const models::CacheShape paged = models::cache_shape(needs);
  ASSERT_EQ(paged.full.blocks_per_slot, 3);
  SequenceBlocks blocks(paged, of, false);
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(blocks.full_table()[i], static_cast<int32_t>(i));
  EXPECT_EQ(blocks.begin(0, ids(0, 30), 0), 0);
  blocks.extend(0, 30);
  blocks.take_changes();
  const std::vector<BlockCopy> copies = blocks.copy(0, 2);
  EXPECT_FALSE(blocks.take_changes()) << "no table changes";
  const auto windows = static_cast<size_t>(paged.window.blocks_per_slot);
  ASSERT_EQ(copies.size(), 3 + windows);
  for (size_t i = 0; i < copies.size(); ++i) {
    const size_t at = i < 3 ? i : i - 3;
    EXPECT_EQ(copies[i].type, i < 3 ? kFull : kWindow);
    EXPECT_EQ(copies[i].from, static_cast<int32_t>(at));
    EXPECT_EQ(copies[i].to, static_cast<int32_t>(at + 2 * (i < 3 ? 3 : windows)));
  }
  EXPECT_EQ(blocks.length(2), 30);
  EXPECT_EQ(blocks.missing(2, 40), 0);
}

TEST(SequenceBlocks, TakesNoBlockThatIsNotThere) {
  const models::ModelConfig of = config(Layers::kFull);
  SequenceBlocks blocks(shape(of, 13 * kBlockTokens), of, true);
  blocks.begin(0, ids(0, 5), 0);
  blocks.begin(1, ids(500, 5), 0);
  blocks.extend(0, 12 * kBlockTokens);
  blocks.extend(1, kBlockTokens);
  EXPECT_EQ(blocks.available(), 0);
  EXPECT_EQ(blocks.missing(1, kBlockTokens), 0);
  EXPECT_EQ(blocks.missing(1, kBlockTokens + 1), 1);
  try {
    blocks.extend(1, kBlockTokens + 1);
    ADD_FAILURE();
  } catch (const InternalError& error) {
    EXPECT_TRUE(std::string(error.what()).ends_with("no block is free of 13")) << error.what();
  }
}

}  // namespace
}  // namespace ridge::serve
