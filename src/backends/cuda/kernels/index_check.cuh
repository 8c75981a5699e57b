// SPDX-License-Identifier: Apache-2.0
// Labels and ids as kernels take them: what is out of
// range counts as -1 and is noted (watched.h says where).
#pragma once

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

// The index, or -1 where it is outside [0, bound).
__device__ __forceinline__ int32_t checked_index(int32_t index, int64_t bound) {
  return index >= 0 && index < bound ? index : -1;
}

// kNoBadRow is the largest unsigned word.
__device__ __forceinline__ void note_row(int64_t row, int32_t* bad_row) {
  if (bad_row != nullptr)
    atomicMin(reinterpret_cast<unsigned*>(bad_row), static_cast<unsigned>(row));
}

// Notes a row whose index is outside [-1, bound). One thread a row is enough.
__device__ __forceinline__ void note_bad_row(int32_t index,
                                             int64_t bound,
                                             int64_t row,
                                             int32_t* bad_row) {
  if (index < -1 || index >= bound) note_row(row, bad_row);
}

}  // namespace ridge::backends::cuda
