// SPDX-License-Identifier: Apache-2.0
// The driver's function that encodes a tensor map for the copy engine (TMA), found at run time.
// Callers fill in the other maps.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>

#include "backends/kernels/strided_rows.h"

namespace ridge::backends::cuda {

// Null if the driver does not have it.
inline decltype(&cuTensorMapEncodeTiled) tensor_map_encoder() {
  static const auto encoder = [] {
    void* function = nullptr;
    cudaDriverEntryPointQueryResult found;
    const cudaError_t status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function,
                                                                12000, cudaEnableDefault, &found);
    if (status != cudaSuccess || found != cudaDriverEntryPointSuccess) function = nullptr;
    return reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(function);
  }();
  return encoder;
}

// The map of a bf16 matrix [rows, in], of which a copy takes 64 columns of `box_rows` rows with the
// 128-byte swizzle, and zeros beyond the matrix. False if it cannot be made.
inline bool encode_rows(CUtensorMap* map,
                        StridedRows<const uint16_t> x,
                        int64_t rows,
                        int64_t in,
                        int box_rows) {
  const auto encoder = tensor_map_encoder();
  if (encoder == nullptr) return false;
  const cuuint64_t extents[2] = {static_cast<cuuint64_t>(in), static_cast<cuuint64_t>(rows)};
  const cuuint64_t step_bytes[1] = {static_cast<cuuint64_t>(x.stride) * sizeof(uint16_t)};
  const cuuint32_t box[2] = {64, static_cast<cuuint32_t>(box_rows)};
  const cuuint32_t every[2] = {1, 1};
  return encoder(map, CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2, const_cast<uint16_t*>(x.data), extents,
                 step_bytes, box, every, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                 CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                 CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

}  // namespace ridge::backends::cuda
