// SPDX-License-Identifier: Apache-2.0
// A kernel's call whose ids or labels are watched. Kernels that are given indices cannot stop and
// tell: they note what is out of range, and who reads the note is index_faults.h.
#pragma once

#include <cstdint>

namespace ridge::backends::cuda {

// An index outside [-1, bound) counts as -1 (padding, a label that is not counted), and its row
// goes to a word in device memory that starts as kNoBadRow (all bits set) and keeps the first such
// row of all launches since. Whoever reads it resets it.
inline constexpr int32_t kNoBadRow = -1;

template <typename Call>
struct Watched : Call {
  int32_t* bad_row = nullptr;  // one, or null: not wanted
};

}  // namespace ridge::backends::cuda
