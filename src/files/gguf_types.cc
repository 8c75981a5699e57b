// SPDX-License-Identifier: Apache-2.0
// The type tables of the published GGUF specification.
#include "files/gguf_types.h"

#include <fmt/format.h>

#include <array>
#include <utility>

namespace ridge::files {
namespace {

struct MetadataRow {
  std::string_view name;
  uint64_t bytes;
};

constexpr std::array<MetadataRow, 13> kMetadataTypes = {{{"u8", 1},
                                                         {"i8", 1},
                                                         {"u16", 2},
                                                         {"i16", 2},
                                                         {"u32", 4},
                                                         {"i32", 4},
                                                         {"f32", 4},
                                                         {"bool", 1},
                                                         {"string", 0},
                                                         {"array", 0},
                                                         {"u64", 8},
                                                         {"i64", 8},
                                                         {"f64", 8}}};

struct TensorRow {
  uint32_t number;
  std::string_view name;
  std::optional<DType> dtype;
};

constexpr std::array kTensorTypes = {
    TensorRow{0, "F32", DType::kF32},    TensorRow{1, "F16", DType::kF16},
    TensorRow{2, "Q4_0", DType::kQ4_0},  TensorRow{3, "Q4_1", DType::kQ4_1},
    TensorRow{6, "Q5_0", DType::kQ5_0},  TensorRow{7, "Q5_1", DType::kQ5_1},
    TensorRow{8, "Q8_0", DType::kQ8_0},  TensorRow{9, "Q8_1", {}},
    TensorRow{10, "Q2_K", DType::kQ2_K}, TensorRow{11, "Q3_K", DType::kQ3_K},
    TensorRow{12, "Q4_K", DType::kQ4_K}, TensorRow{13, "Q5_K", DType::kQ5_K},
    TensorRow{14, "Q6_K", DType::kQ6_K}, TensorRow{15, "Q8_K", {}},
    TensorRow{16, "IQ2_XXS", {}},        TensorRow{17, "IQ2_XS", {}},
    TensorRow{18, "IQ3_XXS", {}},        TensorRow{19, "IQ1_S", {}},
    TensorRow{20, "IQ4_NL", {}},         TensorRow{21, "IQ3_S", {}},
    TensorRow{22, "IQ2_S", {}},          TensorRow{23, "IQ4_XS", {}},
    TensorRow{24, "I8", DType::kI8},     TensorRow{25, "I16", DType::kI16},
    TensorRow{26, "I32", DType::kI32},   TensorRow{27, "I64", DType::kI64},
    TensorRow{28, "F64", DType::kF64},   TensorRow{29, "IQ1_M", {}},
    TensorRow{30, "BF16", DType::kBF16}, TensorRow{34, "TQ1_0", {}},
    TensorRow{35, "TQ2_0", {}},          TensorRow{39, "MXFP4", {}},
};

}  // namespace

std::optional<GgufType> gguf_type_of(uint32_t number) {
  if (number >= kMetadataTypes.size()) return std::nullopt;
  return static_cast<GgufType>(number);
}

std::string_view name(GgufType type) { return kMetadataTypes[static_cast<size_t>(type)].name; }

uint64_t fixed_bytes(GgufType type) { return kMetadataTypes[static_cast<size_t>(type)].bytes; }

std::optional<DType> dtype_of_ggml(uint32_t number) {
  for (const TensorRow& row : kTensorTypes)
    if (row.number == number) return row.dtype;
  return std::nullopt;
}

std::optional<uint32_t> ggml_number(DType dtype) {
  for (const TensorRow& row : kTensorTypes)
    if (row.dtype == dtype) return row.number;
  return std::nullopt;
}

std::string ggml_type_name(uint32_t number) {
  for (const TensorRow& row : kTensorTypes)
    if (row.number == number) return std::string(row.name);
  return fmt::format("type {}", number);
}

}  // namespace ridge::files
