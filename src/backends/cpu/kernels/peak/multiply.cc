// SPDX-License-Identifier: Apache-2.0
// Tells what each multiplying instruction computes.
#include "backends/cpu/kernels/peak/multiply.h"

#include <array>

namespace ridge::backends::cpu {

// A 256-bit vector has 8 numbers of 32 bits. A tile instruction multiplies 16 x 16 sums of 32
// products in bf16, 64 in i8.
const MultiplierInfo& info(Multiplier multiplier) {
  static constexpr std::array<MultiplierInfo, kMultipliers> kInfo = {{
      {"vfmadd ymm", DType::kF32, 2 * 8, true},
      {"vfmadd zmm", DType::kF32, 2 * 16, true},
      {"vpmaddwd ymm", DType::kI16, 2 * 16, false},
      {"vpmaddwd zmm", DType::kI16, 2 * 32, false},
      {"vpdpwssd zmm", DType::kI16, 2 * 32, true},
      {"vpmaddubsw ymm", DType::kI8, 2 * 32, false},
      {"vpmaddubsw zmm", DType::kI8, 2 * 64, false},
      {"vpdpbusd zmm", DType::kI8, 2 * 64, true},
      {"vdpbf16ps zmm", DType::kBF16, 2 * 32, true},
      {"tdpbf16ps", DType::kBF16, 2 * 16 * 16 * 32, true},
      {"tdpbusd", DType::kI8, 2 * 16 * 16 * 64, true},
  }};
  return kInfo[static_cast<size_t>(multiplier)];
}

}  // namespace ridge::backends::cpu
