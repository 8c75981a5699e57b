// SPDX-License-Identifier: Apache-2.0
// Reductions: each row to one value, all rows to one row, a whole tensor to its sum of squares. In
// and Out are float or uint16_t (bf16); arithmetic is fp32 in a fixed order.
#pragma once

#include <cstdint>

#include "backends/cpu/kernels/rows.h"

namespace ridge::backends::cpu {

enum class Reduction : uint8_t {
  kSum,
  kMax,  // NaN left out, -infinity of nothing
  kSumSquares,
};

template <typename In, typename Out>
struct ReduceRows {
  int64_t rows = 0;     // R
  int64_t columns = 0;  // C
  Reduction reduction = Reduction::kSum;
  Rows<const In> x;  // [R, C]
  Out* y = nullptr;  // [R]
};

template <typename In, typename Out>
void reduce_rows(const ReduceRows<In, Out>& call);

template <typename In, typename Out>
struct SumColumns {
  int64_t rows = 0;            // R
  int64_t columns = 0;         // C
  Rows<const In> x;            // [R, C]
  Out* y = nullptr;            // [C]
  float* workspace = nullptr;  // sum_columns_workspace_bytes
};

// Of this process's present OpenMP thread count; the kernel must run with the same.
int64_t sum_columns_workspace_bytes(int64_t rows, int64_t columns);

// y[c] = sum over r of x[r, c].
template <typename In, typename Out>
void sum_columns(const SumColumns<In, Out>& call);

int64_t sum_squares_workspace_bytes(int64_t elements);

// The sum of squares of a contiguous tensor: fp32 within 1024 elements, then double, the same for
// any thread count.
template <typename In>
double sum_squares(const In* x, int64_t elements, double* workspace);

}  // namespace ridge::backends::cpu
