// SPDX-License-Identifier: Apache-2.0
// Checks of labels and ids in kernels: an index out of range counts as -1 and is reported (see
// watched.h).
#pragma once

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

// The index, or -1 if it is outside [0, bound).
__device__ __forceinline__ int32_t checked_index(int32_t index, int64_t bound) {
  return index >= 0 && index < bound ? index : -1;
}

// Stores the smallest row; kNoBadRow is the largest unsigned word.
__device__ __forceinline__ void note_row(int64_t row, int32_t* bad_row) {
  if (bad_row != nullptr)
    atomicMin(reinterpret_cast<unsigned*>(bad_row), static_cast<unsigned>(row));
}

// Reports a row whose index is outside [-1, bound). One thread per row is enough.
__device__ __forceinline__ void note_bad_row(int32_t index,
                                             int64_t bound,
                                             int64_t row,
                                             int32_t* bad_row) {
  if (index < -1 || index >= bound) note_row(row, bad_row);
}

}  // namespace ridge::backends::cuda
