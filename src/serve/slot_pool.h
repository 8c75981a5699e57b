// SPDX-License-Identifier: Apache-2.0
// The slots of a session that no sequence has. One thread at a time takes and gives them; any may
// ask how many are kept.
#pragma once

#include <atomic>
#include <cstdint>
#include <vector>

#include "base/error.h"

namespace ridge::serve {

class SlotPool {
 public:
  explicit SlotPool(int64_t slots) {
    for (int64_t slot = slots; slot-- > 0;) free_.push_back(slot);
  }

  bool is_empty() const { return free_.empty(); }
  // Throws a usage Error if no slot is free.
  int64_t take() {
    if (is_empty())
      throw usage_error(
          "[sequence] expected a free sequence, all are in use; end an answer or a session, or "
          "have more (max_sequences)");
    const int64_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give(int64_t slot) { free_.push_back(slot); }

  // The number of slots whose owners give them back when they like. Requests cannot wait for them.
  int64_t kept() const { return kept_; }
  void count_kept(int64_t more) { kept_ += more; }

 private:
  std::vector<int64_t> free_;
  std::atomic<int64_t> kept_ = 0;
};

}  // namespace ridge::serve
