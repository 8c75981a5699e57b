// SPDX-License-Identifier: Apache-2.0
// Which blocks of a KV cache are in use, how often, and in which order free ones are taken. Knows
// neither tokens nor memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ridge::serve {

class BlockPool {
 public:
  static constexpr int32_t kNone = -1;

  explicit BlockPool(int64_t blocks);

  int64_t blocks() const { return std::ssize(users_); }
  // Blocks that nobody uses.
  int64_t free() const { return free_; }
  int64_t users(int32_t block) const { return users_[static_cast<size_t>(block)]; }

  // Gives a free block its first user; kNone if there is none. Blocks whose content is not kept come
  // first, then those that were left alone longest.
  int32_t take();
  // One more user of a block, which may be free.
  void share(int32_t block);
  // One user less. The content of a free block is kept until the block is taken, or not at all.
  void release(int32_t block, bool is_kept);

 private:
  // The free blocks as a ring through an entry after the last block, in the order of taking.
  size_t head() const { return users_.size(); }
  void unlink(size_t block);
  void link_after(size_t before, size_t block);

  std::vector<int64_t> users_;
  std::vector<size_t> next_, previous_;
  int64_t free_ = 0;
};

}  // namespace ridge::serve
