// SPDX-License-Identifier: Apache-2.0
// GGUF's numbers for metadata types and tensor types, and the limits that the reader and the writer
// share.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/dtype.h"

namespace ridge::files {

// Metadata types by their number in the file.
enum class GgufType : uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

inline constexpr uint32_t kGgufMagic = 0x46554747;  // "GGUF"
inline constexpr int64_t kGgufDefaultAlignmentBytes = 32;
inline constexpr int kGgufMaxRank = 4;
inline constexpr uint64_t kGgufMaxNameBytes = 64;    // names have no more, by the specification
inline constexpr uint64_t kGgufMaxKeyBytes = 65535;  // by the specification
inline constexpr const char* kGgufAlignmentKey = "general.alignment";

std::optional<GgufType> gguf_type_of(uint32_t number);
std::string_view name(GgufType type);  // "u32", "string", "array"
// Bytes of one value of a fixed-size type; 0 for strings and arrays.
uint64_t fixed_bytes(GgufType type);

// The dtype of a tensor type's number; nullopt for types that Ridge does not read.
std::optional<DType> dtype_of_ggml(uint32_t number);
// The reverse; nullopt for dtypes that GGUF lacks (unsigned, bool, FP8).
std::optional<uint32_t> ggml_number(DType dtype);
// The format's spelling ("Q4_K"), also of known types that Ridge does not read; "type 77" for
// others.
std::string ggml_type_name(uint32_t number);

}  // namespace ridge::files
