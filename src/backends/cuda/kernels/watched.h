// SPDX-License-Identifier: Apache-2.0
// The arguments of a kernel with ids or labels that are checked. A kernel cannot stop and report an
// index out of range, so it stores the row in a word, which index_faults.h reads.
#pragma once

#include <cstdint>

namespace ridge::backends::cuda {

// An index outside [-1, bound) counts as -1 (padding, a label that is not counted). Its row is
// stored in a word in pinned host memory that starts as kNoBadRow (all bits set) and keeps the
// smallest such row of all launches since. The reader resets it.
inline constexpr int32_t kNoBadRow = -1;

template <typename Call>
struct Watched : Call {
  int32_t* bad_row = nullptr;  // one word, or null: not reported
};

}  // namespace ridge::backends::cuda
