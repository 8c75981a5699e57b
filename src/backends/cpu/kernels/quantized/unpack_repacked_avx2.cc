// SPDX-License-Identifier: Apache-2.0
// Unpacks repacked tiles of 16 rows for the GEMM path with AVX2; unpack.cc unpacks rows of blocks.
#include <cstdint>
#include <span>

#include "backends/cpu/kernels/peak/unpack_repacked.h"
#include "backends/cpu/kernels/quantized/inner_loops.h"
#include "backends/cpu/kernels/quantized/repacked_quants_avx2-inl.h"
#include "base/repacked_tiles.h"

#pragma GCC push_options
#pragma GCC target("avx2,fma,f16c")
#include "backends/cpu/kernels/quantized/unpack_repacked-inl.h"

namespace ridge::backends::cpu {

// Bound: stores, one of 32 bytes per cycle.
void unpack_repacked_avx2(const WeightPart& part, UnpackedRows& rows) {
  unpack_part<false>(part, rows);
}

// Bound: half as many stores.
void unpack_repacked_int8_avx2(const WeightPart& part, UnpackedRows& rows) {
  unpack_part<true>(part, rows);
}

void unpack_repacked_avx2(DType tiles, const std::byte* data, int64_t bytes) {
  unpack_alone(tiles, data, bytes);
}

}  // namespace ridge::backends::cpu
#pragma GCC pop_options
