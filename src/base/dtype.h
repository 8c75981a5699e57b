// SPDX-License-Identifier: Apache-2.0
// Element types and their storage. Block types (those of GGUF) hold `elements_per_block` elements
// in `bytes_per_block` bytes; for plain types a block is one element. Arithmetic on elements is
// elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ridge {
inline namespace base {

enum class DType : uint8_t {
  kF32,
  kF16,
  kBF16,
  kF64,
  kI8,
  kI16,
  kI32,
  kI64,
  kU8,
  kU16,
  kU32,
  kU64,
  kBool,
  kF8E4M3,
  kF8E5M2,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ2_K,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kQ4_G32,  // groups with a scale and a zero point, those of GPTQ and AWQ (block_formats.h)
  kQ4_G128,
  kQ4_0x16,  // repacked tiles of 16 rows (repacked_tiles.h), never in a file
  kQ4_1x16,
  kQ5_0x16,
  kQ8_0x16,
  kQ4_Kx16,
  kQ6_Kx16,
  kQ4_G32x16,
  kQ4_G128x16,
  kQ4_0x8,  // fragment tiles of 8 rows (fragment_tiles.h), never in a file; the last types
  kQ4_1x8,
  kQ5_0x8,
  kQ5_1x8,
  kQ8_0x8,
  kQ4_Kx8,
  kQ5_Kx8,
  kQ6_Kx8,
  kQ4_G32x8,
  kQ4_G128x8,
};

struct DTypeInfo {
  DType dtype;
  std::string_view name;       // as the text form, --dtype and reports spell it
  int64_t elements_per_block;  // 1 for plain types
  int64_t bytes_per_block;
};

const DTypeInfo& info(DType dtype);
std::optional<DType> parse_dtype(std::string_view name);

inline std::string_view name(DType dtype) { return info(dtype).name; }
inline bool is_block(DType dtype) { return info(dtype).elements_per_block > 1; }
inline bool is_float(DType dtype) {
  return dtype == DType::kF32 || dtype == DType::kF16 || dtype == DType::kBF16 ||
         dtype == DType::kF64;
}

// Bytes that `elements` elements take. Throws a file Error unless they are whole blocks, and an
// out-of-memory Error if the size overflows.
int64_t storage_bytes(DType dtype, int64_t elements);

}  // namespace base
}  // namespace ridge
