// SPDX-License-Identifier: Apache-2.0
// A doubly linked list of the free blocks in two arrays.
#include "serve/block_pool.h"

#include "base/error.h"

namespace ridge::serve {

BlockPool::BlockPool(int64_t blocks) : users_(static_cast<size_t>(blocks), 0) {
  next_.resize(users_.size() + 1);
  previous_.resize(users_.size() + 1);
  next_[head()] = previous_[head()] = head();
  for (size_t block = 0; block < users_.size(); ++block) link_after(previous_[head()], block);
}

void BlockPool::unlink(size_t block) {
  next_[previous_[block]] = next_[block];
  previous_[next_[block]] = previous_[block];
  --free_;
}

void BlockPool::link_after(size_t before, size_t block) {
  previous_[block] = before;
  next_[block] = next_[before];
  previous_[next_[before]] = block;
  next_[before] = block;
  ++free_;
}

int32_t BlockPool::take() {
  const size_t block = next_[head()];
  if (block == head()) return kNone;
  unlink(block);
  users_[block] = 1;
  return static_cast<int32_t>(block);
}

void BlockPool::share(int32_t block) {
  const size_t at = static_cast<size_t>(block);
  if (users_[at]++ == 0) unlink(at);
}

void BlockPool::release(int32_t block, bool is_kept) {
  const size_t at = static_cast<size_t>(block);
  RIDGE_CHECK(users_[at] > 0, "block {} has no user to release it", block);
  if (--users_[at] > 0) return;
  link_after(is_kept ? previous_[head()] : head(), at);
}

}  // namespace ridge::serve
