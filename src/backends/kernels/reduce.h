// SPDX-License-Identifier: Apache-2.0
// Arguments of the reduction kernels: each row to one value, all rows to one row, or whole tensors
// to their sum of squares. In and Out are float, uint16_t (bf16) or Float16; arithmetic is fp32
// in a fixed order.
#pragma once

#include <cstdint>

#include "backends/kernels/strided_rows.h"
#include "base/float16.h"

namespace ridge::backends {

enum class Reduction : uint8_t {
  kSum,
  kMax,  // ignores NaN; -infinity if nothing is left
};

template <typename In, typename Out>
struct ReduceRows {
  int64_t rows = 0;     // R
  int64_t columns = 0;  // C
  Reduction reduction = Reduction::kSum;
  StridedRows<const In> x;  // [R, C]
  Out* y = nullptr;         // [R]
};

// y[c] = sum over r of x[r, c].
template <typename In, typename Out>
struct SumColumns {
  int64_t rows = 0;            // R
  int64_t columns = 0;         // C
  StridedRows<const In> x;     // [R, C]
  Out* y = nullptr;            // [C]
  float* workspace = nullptr;  // the backend's sum_columns_workspace_bytes
};

// A dense tensor whose squares are summed; exactly one pointer is not null.
struct SquaresTensor {
  int64_t elements = 0;
  const float* f32 = nullptr;
  const uint16_t* bf16 = nullptr;
  const Float16* f16 = nullptr;
};

}  // namespace ridge::backends
