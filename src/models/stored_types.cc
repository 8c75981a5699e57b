// SPDX-License-Identifier: Apache-2.0
// The table of types, and the rules for choosing one.
#include "models/stored_types.h"

#include <array>

#include "base/dtype.h"
#include "base/error.h"

namespace ridge::models {
namespace {

struct ConvertibleType {
  DType type;
  DType shorter;       // the type for rows that are not whole blocks
  uint32_t file_type;  // llama.cpp's number, of the plain variant if there are several
};
constexpr std::array<ConvertibleType, 13> kConvertibleTypes = {{
    {DType::kQ2_K, DType::kQ4_0, 10},
    {DType::kQ3_K, DType::kQ4_0, 11},
    {DType::kQ4_K, DType::kQ5_0, 14},
    {DType::kQ5_K, DType::kQ5_1, 16},
    {DType::kQ6_K, DType::kQ8_0, 18},
    {DType::kQ4_0, DType::kF16, 2},
    {DType::kQ4_1, DType::kF16, 3},
    {DType::kQ5_0, DType::kF16, 8},
    {DType::kQ5_1, DType::kF16, 9},
    {DType::kQ8_0, DType::kF16, 7},
    {DType::kBF16, DType::kBF16, 32},
    {DType::kF16, DType::kF16, 1},
    {DType::kF32, DType::kF32, 0},
}};

const ConvertibleType* find(DType type) {
  for (const ConvertibleType& each : kConvertibleTypes)
    if (each.type == type) return &each;
  return nullptr;
}

bool is_plain(DType type) {
  return type == DType::kF32 || type == DType::kF16 || type == DType::kBF16;
}

DType fitting(DType type, int64_t row_elements) {
  while (row_elements % info(type).elements_per_block != 0) type = find(type)->shorter;
  return type;
}

}  // namespace

std::string convertible_types(bool gguf) {
  std::string names;
  for (const ConvertibleType& each : kConvertibleTypes)
    if (gguf || is_plain(each.type))
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name(each.type));
  return names;
}

DType gguf_type(const ModelConfig& config,
                const Parameter& parameter,
                DType stored,
                std::optional<DType> asked) {
  if (parameter.shape.rank() < 2) return DType::kF32;
  if (!asked && (stored == DType::kQ4_G32 || stored == DType::kQ4_G128)) return DType::kF16;
  if (!asked) return find(stored) != nullptr ? stored : DType::kF32;  // fp64 and fp8 become fp32
  if (find(*asked) == nullptr)
    throw usage_error("[type] expected one of {}, got {}", convertible_types(true), name(*asked));
  int64_t row = parameter.shape.back();
  bool needs_more = is_block(*asked) && *asked != DType::kQ8_0 && is_head(config, parameter.name);
  return fitting(needs_more ? DType::kQ6_K : *asked, row);
}

DType folder_type(const ModelFile& file,
                  std::span<const Parameter> parameters,
                  std::optional<DType> asked) {
  if (asked && !is_plain(*asked))
    throw usage_error("[type] expected one of {} in a folder for transformers, got {}",
                      convertible_types(false), name(*asked));
  if (asked) return *asked;
  std::optional<DType> common;
  WeightLookup lookup = file.lookup();
  for (const Parameter& parameter : parameters) {
    if (parameter.shape.rank() < 2) continue;
    DType stored = lookup(parameter.name, parameter.shape).dtype;
    if (is_block(stored) && !file.is_gguf()) return DType::kF16;
    if (common.value_or(stored) != stored || !is_plain(stored)) return DType::kF32;
    common = stored;
  }
  return common.value_or(DType::kF32);
}

uint32_t gguf_file_type(DType type) {
  const ConvertibleType* found = find(type);
  RIDGE_CHECK(found != nullptr, "no GGUF file type for {}", name(type));
  return found->file_type;
}

}  // namespace ridge::models
