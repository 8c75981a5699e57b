// SPDX-License-Identifier: Apache-2.0
// The parts that the counts of several families have in common.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "record/import/operation_counts.h"

namespace ridge::record {

// Writes a tensor; the caller adds work and reads.
inline Counts writing(DType dtype, Extents output) {
  Counts counts;
  counts.output_type = dtype;
  counts.written_bytes = count_product({count_product(output), info(dtype).bytes_per_block});
  counts.output = std::move(output);
  return counts;
}

inline void add_macs(Counts& counts, int64_t macs) {
  counts.model_macs = counts.work.macs = macs;
  counts.work.flops = count_product({macs, 2});
}

// The bytes of the operands from `first` on, up to `last`.
inline int64_t read_bytes(const RecordedCall& call, size_t first = 0, size_t last = SIZE_MAX) {
  int64_t sum = 0;
  for (size_t i = first; i < std::min(last, call.operands.size()); ++i)
    sum = count_product({1, sum + call.operands[i].bytes()});
  return sum;
}

// The output of a product of a served model, whose inputs may have fewer bits.
inline DType product_type(DType input) {
  return is_float(input) && info(input).bytes_per_block > 1 ? input : DType::kBF16;
}

}  // namespace ridge::record
