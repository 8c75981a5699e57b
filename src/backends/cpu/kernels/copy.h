// SPDX-License-Identifier: Apache-2.0
// Copies between strided layouts of up to six dimensions, with conversion between float and
// uint16_t (bf16) and optional addition. Same-type copies move bits, so any 4-byte or 2-byte type
// may pass as float or uint16_t. No overlap of source and target.
#pragma once

#include <cstdint>

namespace ridge::backends::cpu {

inline constexpr int kCopyMaxRank = 6;

struct CopyLayout {
  int rank = 0;  // 0: one element
  int64_t extents[kCopyMaxRank] = {};
  int64_t source_strides[kCopyMaxRank] = {};  // elements; 0 repeats the source
  int64_t target_strides[kCopyMaxRank] = {};  // elements; no two target elements may be one
};

template <typename From, typename To>
struct Copy {
  CopyLayout layout;
  const From* source = nullptr;
  To* target = nullptr;
  bool accumulate = false;  // target += source, added in fp32
};

// Fast where the innermost target dimension is contiguous and the source has that dimension, or
// another, contiguous (runs, transpositions), or repeats one element along it. Any other layout is
// right but scalar. Throws InternalError for a rank out of range or a negative extent or stride.
template <typename From, typename To>
void copy(const Copy<From, To>& call);

// The contiguous case.
template <typename From, typename To>
void cast(const From* source, To* target, int64_t elements);

}  // namespace ridge::backends::cpu
