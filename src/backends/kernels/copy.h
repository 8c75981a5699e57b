// SPDX-License-Identifier: Apache-2.0
// Arguments of the copy kernel: two strided layouts of up to six dimensions, with conversion
// between float and uint16_t (bf16) and optional accumulation. Same-type copies move bits, so any
// 4-byte or 2-byte type may pass as float or uint16_t.
#pragma once

#include <cstdint>

namespace ridge::backends {

inline constexpr int kCopyMaxRank = 6;

struct CopyLayout {
  int rank = 0;  // 0: one element
  int64_t extents[kCopyMaxRank] = {};
  int64_t source_strides[kCopyMaxRank] = {};  // elements; 0 repeats the source
  int64_t target_strides[kCopyMaxRank] = {};  // elements; no two target elements may coincide
};

template <typename From, typename To>
struct Copy {
  CopyLayout layout;
  const From* source = nullptr;
  To* target = nullptr;     // no overlap with the source
  bool accumulate = false;  // target += source, added in fp32
};

}  // namespace ridge::backends
