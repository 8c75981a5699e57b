// SPDX-License-Identifier: Apache-2.0
// The order of the rows of q and k. RoPE rotates the pairs (2i, 2i + 1) of a head if they are
// interleaved, and (i, i + E/2) if a head is split into halves. Rows move from one order to the
// other; the numbers in a row stay.
#pragma once

#include <cstdint>

namespace ridge::models {

class RowOrder {
 public:
  RowOrder(int64_t head_size, bool from_interleaved, bool to_interleaved)
      : head_size_(head_size),
        moves_(from_interleaved != to_interleaved),
        to_interleaved_(to_interleaved) {}

  bool moves() const { return moves_; }
  // The new index of a row, counted over all heads.
  int64_t at(int64_t row) const {
    if (!moves_) return row;
    int64_t half = head_size_ / 2, in_head = row % head_size_, head = row - in_head;
    if (to_interleaved_) return head + (in_head % half) * 2 + in_head / half;
    return head + (in_head % 2) * half + in_head / 2;
  }

 private:
  int64_t head_size_;
  bool moves_, to_interleaved_;
};

}  // namespace ridge::models
