// SPDX-License-Identifier: Apache-2.0
// The simplest form of a strided copy: dimensions of one element are dropped, the others are
// ordered by target stride, and dimensions that are contiguous with each other in both layouts are
// joined. copy.cc does the copying.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/kernels.h"

namespace ridge::backends::cpu {

enum class CopyPath : uint8_t {
  kRuns,       // source and target contiguous along the inner dimension
  kRepeat,     // one source element along a contiguous target run
  kTranspose,  // target contiguous along the inner dimension, source along `across`
  kScalar,     // any other layout
};

// Outer dimensions, outermost first, then `across` and `inner`. Element (o..., i, j) is at
// source[.. + i across_source + j inner_source] and target[.. + i across_target + j inner_target].
struct CopyPlan {
  CopyPath path = CopyPath::kRuns;
  int64_t elements = 0;  // total
  int64_t inner = 1;
  int64_t inner_source = 1;
  int64_t inner_target = 1;
  int64_t across = 1;  // 1 unless transposing
  int64_t across_source = 1;
  int64_t across_target = 1;
  int outer_rank = 0;
  int64_t outer_count = 1;
  int64_t outer_extents[kCopyMaxRank] = {};
  int64_t outer_source[kCopyMaxRank] = {};
  int64_t outer_target[kCopyMaxRank] = {};
};

CopyPlan plan_copy(const CopyLayout& layout);

// A position in the outer dimensions, with both offsets; it advances along the innermost first.
class OuterPosition {
 public:
  OuterPosition(const CopyPlan& plan, int64_t start) : plan_(plan) {
    for (int d = plan.outer_rank; d-- > 0;) {
      index_[d] = start % plan.outer_extents[d];
      start /= plan.outer_extents[d];
      source_ += index_[d] * plan.outer_source[d];
      target_ += index_[d] * plan.outer_target[d];
    }
  }

  int64_t source() const { return source_; }
  int64_t target() const { return target_; }

  void advance() {
    for (int d = plan_.outer_rank; d-- > 0;) {
      source_ += plan_.outer_source[d];
      target_ += plan_.outer_target[d];
      if (++index_[d] < plan_.outer_extents[d]) return;
      source_ -= index_[d] * plan_.outer_source[d];
      target_ -= index_[d] * plan_.outer_target[d];
      index_[d] = 0;
    }
  }

 private:
  const CopyPlan& plan_;
  int64_t index_[kCopyMaxRank] = {};
  int64_t source_ = 0;
  int64_t target_ = 0;
};

}  // namespace ridge::backends::cpu
