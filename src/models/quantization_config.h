// SPDX-License-Identifier: Apache-2.0
// How the matrices of a Hugging Face folder are quantized: "quantization_config" in config.json, or
// quantize_config.json. packed_weights.h reads the matrices.
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string_view>

namespace ridge::models {

// Which tensors hold a matrix [out, in], and in which order their 32-bit words have 8 quants.
enum class PackedFormat : uint8_t {
  kGptq,        // qweight [in / 8, out], qzeros [groups, out / 8], scales [groups, out], g_idx [in]
  kAwq,         // AWQ's "gemm": qweight [in, out / 8], qzeros and scales as above
  kCompressed,  // compressed-tensors' "pack-quantized": weight_packed [out, in / 8] and others
};

struct QuantizationConfig {
  PackedFormat format = PackedFormat::kGptq;
  int64_t group = 128;          // columns that share a scale; 0: all columns of a row
  bool zeros_less_one = false;  // zero points are stored less 1
};

// None if the folder's matrices are not quantized. Throws a bad-file Error for methods, numbers of
// bits and formats that Ridge does not read.
std::optional<QuantizationConfig> read_quantization(const std::filesystem::path& folder);
QuantizationConfig parse_quantization(const nlohmann::json& json, std::string_view source);

}  // namespace ridge::models
