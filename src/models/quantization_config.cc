// SPDX-License-Identifier: Apache-2.0
// Reads the keys of GPTQ, AWQ and compressed-tensors.
#include "models/quantization_config.h"

#include <algorithm>
#include <cctype>
#include <nlohmann/json.hpp>
#include <string>

#include "base/printable.h"
#include "files/json.h"
#include "files/json_field.h"

namespace ridge::models {
namespace {

using files::JsonField;

std::string lower_case(std::string text) {
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

void expect_four_bits(const JsonField& bits) {
  if (bits.integer() != 4) throw bits.fault("4 bits");
}

// Files say -1 for whole rows.
int64_t group_of(const JsonField& size) {
  const int64_t group = size.integer(-1);
  if (group == -1) return 0;
  if (group == 0 || group % 32 != 0) throw size.fault("a multiple of 32 columns, or -1");
  return group;
}

// AWQ's own files have other names for these than transformers.
JsonField either(const JsonField& file, const char* key, const char* other) {
  return file.at(file.has(key) || !file.has(other) ? key : other);
}

QuantizationConfig parse_gptq(const JsonField& file) {
  expect_four_bits(file.at("bits"));
  const char* key = file.has("checkpoint_format") ? "checkpoint_format" : "format";
  const std::string format = file.text_or(key, "gptq");
  if (format != "gptq" && format != "gptq_v2")
    throw file.at(key).fault("'gptq' or 'gptq_v2'", printable(format));
  return {PackedFormat::kGptq, group_of(file.at("group_size")), format == "gptq"};
}

QuantizationConfig parse_awq(const JsonField& file) {
  expect_four_bits(either(file, "bits", "w_bit"));
  const std::string version = lower_case(file.text_or("version", "gemm"));
  if (version != "gemm") throw file.at("version").fault("'gemm'");
  return {PackedFormat::kAwq, group_of(either(file, "group_size", "q_group_size")), false};
}

QuantizationConfig parse_compressed(const JsonField& file) {
  if (file.at("format").text() != "pack-quantized")
    throw file.at("format").fault("'pack-quantized'");
  const JsonField groups = file.at("config_groups");
  if (groups.object().size() != 1)
    throw groups.fault("one group of modules", std::to_string(groups.size()));
  const JsonField group = groups.at(groups.object().begin().key());
  if (group.has("input_activations"))
    throw group.at("input_activations").fault("null: activations as they are");
  const JsonField weights = group.at("weights");
  expect_four_bits(weights.at("num_bits"));
  if (weights.text_or("type", "int") != "int") throw weights.at("type").fault("'int'");
  const std::string strategy = weights.text_or("strategy", "group");
  if (strategy == "channel") return {PackedFormat::kCompressed, 0, false};
  if (strategy != "group") throw weights.at("strategy").fault("'group' or 'channel'");
  return {PackedFormat::kCompressed, group_of(weights.at("group_size")), false};
}

}  // namespace

QuantizationConfig parse_quantization(const nlohmann::json& json, std::string_view source) {
  const JsonField file(json, std::string(source));
  file.object();  // throws unless it is an object
  const std::string method = file.text_or("quant_method", file.has("w_bit") ? "awq" : "gptq");
  if (method == "gptq") return parse_gptq(file);
  if (method == "awq") return parse_awq(file);
  if (method == "compressed-tensors") return parse_compressed(file);
  throw file.at("quant_method").fault("'gptq', 'awq' or 'compressed-tensors'");
}

std::optional<QuantizationConfig> read_quantization(const std::filesystem::path& folder) {
  const std::filesystem::path config = folder / "config.json",
                              other = folder / "quantize_config.json";
  const nlohmann::json document = files::read_json(config);
  const JsonField file(document, config.string());
  if (file.has("quantization_config"))
    return parse_quantization(document.at("quantization_config"),
                              config.string() + ": quantization_config");
  if (std::error_code error; std::filesystem::exists(other, error))
    return parse_quantization(files::read_json(other), other.string());
  return std::nullopt;
}

}  // namespace ridge::models
