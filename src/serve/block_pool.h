// SPDX-License-Identifier: Apache-2.0
// Counts the users of each KV-cache block and keeps the free blocks in the order of their reuse.
// Knows neither tokens nor memory.
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
  // The number of blocks without users.
  int64_t free() const { return free_; }
  int64_t users(int32_t block) const { return users_[static_cast<size_t>(block)]; }

  // Gives a free block its first user and returns it, or kNone if no block is free. Blocks whose
  // content is not kept come first, then those that have been free longest.
  int32_t take();
  // Adds a user to a block, which may be free.
  void share(int32_t block);
  // Removes a user. After the last one, the content stays until the block is taken if `is_kept`.
  void release(int32_t block, bool is_kept);

 private:
  // The free blocks form a ring in the order of taking; the entry after the last block is its head.
  size_t head() const { return users_.size(); }
  void unlink(size_t block);
  void link_after(size_t before, size_t block);

  std::vector<int64_t> users_;
  std::vector<size_t> next_, previous_;
  int64_t free_ = 0;
};

}  // namespace ridge::serve
