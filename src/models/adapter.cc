// SPDX-License-Identifier: Apache-2.0
// Writes and reads adapter_config.json, and reads the tensors.
#include "models/adapter.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/block_formats.h"
#include "base/error.h"
#include "base/finite.h"
#include "files/json.h"
#include "files/json_field.h"
#include "files/safetensors.h"

namespace ridge::models {
namespace {

namespace fs = std::filesystem;
using json = nlohmann::ordered_json;

constexpr std::string_view kA = ".lora_A.weight", kB = ".lora_B.weight";
constexpr int64_t kMostRank = int64_t{1} << 20;

// The adapter must have none of these: their effect would be left out of the merged weights.
void expect_plain(const files::JsonField& config) {
  const auto refuse = [&](const char* key, const std::string& expected) {
    throw config.at(key).fault(expected);
  };
  if (const std::string& type = config.at("peft_type").text(); type != "LORA")
    refuse("peft_type", "LORA");
  for (const char* key : {"use_dora", "fan_in_fan_out", "lora_bias"})
    if (config.has(key) && config.at(key).flag()) refuse(key, "false");
  if (config.has("bias") && config.at("bias").text() != "none") refuse("bias", "none");
  for (const char* key : {"rank_pattern", "alpha_pattern"})
    if (config.has(key) && config.at(key).size() > 0) refuse(key, "nothing");
  if (config.has("modules_to_save") && config.at("modules_to_save").size() > 0)
    refuse("modules_to_save", "nothing");
  // PiSSA, OLoRA, LoftQ and others change the base too.
  if (config.has("init_lora_weights") && !config.at("init_lora_weights").value().is_boolean() &&
      config.at("init_lora_weights").text() != "gaussian")
    refuse("init_lora_weights", "true, false or gaussian");
}

std::vector<float> floats_of(const files::FileTensor& tensor, const std::string& source) {
  if (!is_float(tensor.dtype))
    throw file_error("[{}] tensor {}: expected a floating-point type, found {}", source,
                     printable(tensor.name), name(tensor.dtype));
  std::vector<float> values(static_cast<size_t>(tensor.shape.elements()));
  dequantize(tensor.dtype, tensor.bytes, values);
  if (!all_finite(values))
    throw file_error("[{}] tensor {}: expected finite values", source, printable(tensor.name));
  return values;
}

}  // namespace

std::string adapter_config_json(const AdapterConfig& config) {
  const json out{
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", config.base_model.empty() ? json() : json(config.base_model)},
      {"r", config.rank},
      {"lora_alpha", config.alpha},
      {"target_modules", config.targets},
      {"lora_dropout", 0.0},
      {"bias", "none"},
      {"fan_in_fan_out", false},
      {"init_lora_weights", true},
      {"use_rslora", false},
      {"use_dora", false},
      {"modules_to_save", nullptr},
      {"rank_pattern", json::object()},
      {"alpha_pattern", json::object()},
      {"inference_mode", true}};
  return files::written_json(out);
}

void WeightChange::add_to(int64_t row, std::span<float> values) const {
  std::vector<double> sum(values.size(), 0.0);
  for (int64_t r = 0; r < rank; ++r) {
    const double factor = scale * static_cast<double>(b[static_cast<size_t>(row * rank + r)]);
    const float* from = a.data() + static_cast<size_t>(r) * values.size();
    for (size_t i = 0; i < values.size(); ++i) sum[i] += factor * static_cast<double>(from[i]);
  }
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(static_cast<double>(values[i]) + sum[i]);
}

Adapter Adapter::open(const fs::path& folder) {
  const fs::path config_path = folder / kAdapterConfig;
  const nlohmann::json document = files::read_json(config_path);
  const files::JsonField config(document, config_path.string());
  expect_plain(config);
  const int64_t rank = config.at("r").integer(1, kMostRank);
  const double alpha = config.at("lora_alpha").real();
  const bool by_root = config.has("use_rslora") && config.at("use_rslora").flag();
  const auto width = static_cast<double>(rank);
  const double scale = alpha / (by_root ? std::sqrt(width) : width);

  Adapter adapter;
  const fs::path weights_path = folder / kAdapterWeights;
  adapter.source_ = weights_path.string();
  const auto file = files::SafetensorsFile::open(weights_path);
  const auto fault = [&](const files::FileTensor& tensor, const std::string& expected) {
    return file_error("[{}] tensor {}: expected {}, found {}", adapter.source_,
                      printable(tensor.name), expected, tensor.shape.str());
  };
  for (const files::FileTensor& tensor : file.tensors().all()) {
    std::string_view module = tensor.name;
    const bool is_prefixed = module.starts_with(kAdapterPrefix);
    if (is_prefixed) module.remove_prefix(std::string_view(kAdapterPrefix).size());
    if (!is_prefixed || !(module.ends_with(kA) || module.ends_with(kB)))
      throw file_error("[{}] expected tensors named {}MODULE{} and {}, found {}", adapter.source_,
                       kAdapterPrefix, kA, kB, printable(tensor.name));
    const bool is_a = module.ends_with(kA);
    module.remove_suffix(kA.size());
    if (tensor.shape.rank() != 2) throw fault(tensor, "a matrix");
    if (tensor.shape[is_a ? 0 : 1] != rank)
      throw fault(tensor, fmt::format("a rank of {} as in {}", rank, kAdapterConfig));
    WeightChange& change = adapter.changes_[std::string(module) + ".weight"];
    change.rank = rank;
    change.scale = scale;
    (is_a ? change.a : change.b) = floats_of(tensor, adapter.source_);
  }
  for (const auto& [parameter, change] : adapter.changes_)
    if (change.a.empty() || change.b.empty())
      throw file_error("[{}] expected {} and {} of {}, found one of them", adapter.source_, kA, kB,
                       printable(parameter));
  return adapter;
}

const WeightChange* Adapter::find(const Parameter& parameter) const {
  const auto found = changes_.find(parameter.name);
  if (found == changes_.end()) return nullptr;
  const WeightChange& change = found->second;
  const Shape& shape = parameter.shape;
  if (shape.rank() != 2 || std::ssize(change.a) != change.rank * shape[1] ||
      std::ssize(change.b) != change.rank * shape[0])
    throw file_error("[{}] expected an adapter of {} {}, found one of [{},{}]", source_,
                     parameter.name, shape.str(), std::ssize(change.b) / change.rank,
                     std::ssize(change.a) / change.rank);
  return &change;
}

void Adapter::expect_all_of(std::span<const Parameter> parameters) const {
  std::set<std::string> known;
  for (const Parameter& each : parameters) {
    known.insert(each.name);
    find(each);
  }
  for (const auto& [parameter, change] : changes_)
    if (!known.contains(parameter))
      throw file_error("[{}] expected adapters of the model's parameters, found one of {}", source_,
                       printable(parameter));
}

}  // namespace ridge::models
