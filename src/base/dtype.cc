// SPDX-License-Identifier: Apache-2.0
// The table of element types. Block sizes are those of the GGUF specification and of
// block_formats.h.
#include "base/dtype.h"

#include <array>

#include "base/error.h"

namespace ridge {
inline namespace base {
namespace {

constexpr std::array kTable = {
    DTypeInfo{DType::kF32, "f32", 1, 4},
    DTypeInfo{DType::kF16, "f16", 1, 2},
    DTypeInfo{DType::kBF16, "bf16", 1, 2},
    DTypeInfo{DType::kF64, "f64", 1, 8},
    DTypeInfo{DType::kI8, "i8", 1, 1},
    DTypeInfo{DType::kI16, "i16", 1, 2},
    DTypeInfo{DType::kI32, "i32", 1, 4},
    DTypeInfo{DType::kI64, "i64", 1, 8},
    DTypeInfo{DType::kU8, "u8", 1, 1},
    DTypeInfo{DType::kU16, "u16", 1, 2},
    DTypeInfo{DType::kU32, "u32", 1, 4},
    DTypeInfo{DType::kU64, "u64", 1, 8},
    DTypeInfo{DType::kBool, "bool", 1, 1},
    DTypeInfo{DType::kF8E4M3, "f8_e4m3", 1, 1},
    DTypeInfo{DType::kF8E5M2, "f8_e5m2", 1, 1},
    DTypeInfo{DType::kQ4_0, "q4_0", 32, 18},
    DTypeInfo{DType::kQ4_1, "q4_1", 32, 20},
    DTypeInfo{DType::kQ5_0, "q5_0", 32, 22},
    DTypeInfo{DType::kQ5_1, "q5_1", 32, 24},
    DTypeInfo{DType::kQ8_0, "q8_0", 32, 34},
    DTypeInfo{DType::kQ2_K, "q2_k", 256, 84},
    DTypeInfo{DType::kQ3_K, "q3_k", 256, 110},
    DTypeInfo{DType::kQ4_K, "q4_k", 256, 144},
    DTypeInfo{DType::kQ5_K, "q5_k", 256, 176},
    DTypeInfo{DType::kQ6_K, "q6_k", 256, 210},
    DTypeInfo{DType::kQ4_G32, "q4_g32", 64, 38},
    DTypeInfo{DType::kQ4_G128, "q4_g128", 128, 68},
    DTypeInfo{DType::kQ4_0x16, "q4_0x16", 1024, 576},
    DTypeInfo{DType::kQ4_1x16, "q4_1x16", 1024, 640},
    DTypeInfo{DType::kQ5_0x16, "q5_0x16", 1024, 704},
    DTypeInfo{DType::kQ8_0x16, "q8_0x16", 1024, 1088},
    DTypeInfo{DType::kQ4_Kx16, "q4_kx16", 4096, 2304},
    DTypeInfo{DType::kQ6_Kx16, "q6_kx16", 4096, 3360},
    DTypeInfo{DType::kQ4_G32x16, "q4_g32x16", 1024, 608},
    DTypeInfo{DType::kQ4_G128x16, "q4_g128x16", 2048, 1088},
    DTypeInfo{DType::kQ4_0x8, "q4_0x8", 2048, 1152},
    DTypeInfo{DType::kQ4_1x8, "q4_1x8", 2048, 1280},
    DTypeInfo{DType::kQ5_0x8, "q5_0x8", 2048, 1408},
    DTypeInfo{DType::kQ5_1x8, "q5_1x8", 2048, 1536},
    DTypeInfo{DType::kQ8_0x8, "q8_0x8", 2048, 2176},
    DTypeInfo{DType::kQ4_Kx8, "q4_kx8", 2048, 1152},
    DTypeInfo{DType::kQ5_Kx8, "q5_kx8", 2048, 1408},
    DTypeInfo{DType::kQ6_Kx8, "q6_kx8", 2048, 1680},
    DTypeInfo{DType::kQ4_G32x8, "q4_g32x8", 2048, 1216},
    DTypeInfo{DType::kQ4_G128x8, "q4_g128x8", 2048, 1088},
};

}  // namespace

const DTypeInfo& info(DType dtype) {
  const DTypeInfo& row = kTable[static_cast<size_t>(dtype)];
  RIDGE_CHECK(row.dtype == dtype, "the dtype table is out of order at {}", static_cast<int>(dtype));
  return row;
}

std::optional<DType> parse_dtype(std::string_view name) {
  for (const DTypeInfo& row : kTable)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

int64_t storage_bytes(DType dtype, int64_t elements) {
  const DTypeInfo& row = info(dtype);
  if (elements < 0 || elements % row.elements_per_block != 0)
    throw file_error("[{}] expected a multiple of {} elements, got {}", row.name,
                     row.elements_per_block, elements);
  int64_t bytes = 0;
  if (__builtin_mul_overflow(elements / row.elements_per_block, row.bytes_per_block, &bytes))
    throw memory_error("[{}] {} elements do not fit in 63 bits of bytes", row.name, elements);
  return bytes;
}

}  // namespace base
}  // namespace ridge
