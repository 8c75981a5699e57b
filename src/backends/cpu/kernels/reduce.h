// SPDX-License-Identifier: Apache-2.0
// Reductions on CPUs: each row to one value, all rows to one row (both defined in
// backends/kernels/reduce.h), or a whole tensor to its sum of squares.
#pragma once

#include "backends/kernels/reduce.h"

namespace ridge::backends::cpu {

template <typename In, typename Out>
void reduce_rows(const ReduceRows<In, Out>& call);

// For the current number of OpenMP threads; the kernel must run with the same number.
int64_t sum_columns_workspace_bytes(int64_t rows, int64_t columns);

template <typename In, typename Out>
void sum_columns(const SumColumns<In, Out>& call);

int64_t sum_squares_workspace_bytes(int64_t elements);

// The sum of squares of a contiguous tensor of float, uint16_t (bf16) or Float16, in fp32 within
// 1024 elements, then in double; the same bits for any thread count.
template <typename In>
double sum_squares(const In* x, int64_t elements, double* workspace);

}  // namespace ridge::backends::cpu
