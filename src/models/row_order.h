// SPDX-License-Identifier: Apache-2.0
// Where the rows of q and k lie: RoPE turns the pairs (2i, 2i + 1) of a head where they are
// interleaved, (i, i + E/2) where a head is cut into halves. A row goes from one order to the
// other; the numbers in it stay.
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
  // The place of a row of all heads.
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
