// SPDX-License-Identifier: Apache-2.0
// Work over many tensors in one launch: the list is passed as a kernel parameter (up to 32 KiB
// since CUDA 12.1), so no table is kept in device memory, and a captured launch contains its own
// list.
#pragma once

#include "backends/cuda/kernels/gpu_dialect.cuh"

namespace ridge::backends::cuda {

// Blocks process pieces of a fixed number of elements, tensor after tensor.
template <typename Tensor, int kCapacity>
struct TensorList {
  Tensor tensors[kCapacity];
  uint32_t first_block[kCapacity];  // first block of each tensor
  int count = 0;

  // The tensor to which the block's piece belongs.
  __device__ __forceinline__ int tensor_of(uint32_t block) const {
    int low = 0, high = count;  // first_block[low] <= block < first_block[high]
    while (high - low > 1) {
      const int middle = (low + high) / 2;
      if (first_block[middle] <= block)
        low = middle;
      else
        high = middle;
    }
    return low;
  }
};

}  // namespace ridge::backends::cuda
