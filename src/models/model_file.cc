// SPDX-License-Identifier: Apache-2.0
// Detects the format of a model and opens it.
#include "models/model_file.h"

#include <algorithm>

#include "base/block_formats.h"
#include "base/error.h"
#include "base/finite.h"
#include "models/adapter.h"
#include "models/config_gguf.h"
#include "models/config_json.h"
#include "models/known_shapes.h"
#include "models/packed_weights.h"
#include "models/weight_names.h"
#include "models/weight_writer.h"

namespace ridge::models {
namespace {

// The GGUF file of a folder without config.json. Several are an Error, because none is preferred.
std::filesystem::path gguf_in(const std::filesystem::path& folder) {
  std::filesystem::path found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".gguf") continue;
    if (!found.empty())
      throw file_error("[model] {}: expected one .gguf file, found several", folder.string());
    found = entry.path();
  }
  return found;
}

bool is_finite(const files::FileTensor& tensor) {
  constexpr int64_t kPart = int64_t{1} << 16;  // elements, whole blocks of every type
  std::vector<float> values;
  const int64_t elements = tensor.shape.elements();
  for (int64_t at = 0; at < elements; at += kPart) {
    values.resize(static_cast<size_t>(std::min(kPart, elements - at)));
    const size_t begin = static_cast<size_t>(storage_bytes(tensor.dtype, at)),
                 size = static_cast<size_t>(storage_bytes(tensor.dtype, std::ssize(values)));
    dequantize(tensor.dtype, tensor.bytes.subspan(begin, size), values);
    if (!all_finite(values)) return false;
  }
  return true;
}

}  // namespace

ModelFile ModelFile::open(const std::filesystem::path& path) {
  std::error_code unreadable;
  bool is_folder = std::filesystem::is_directory(path, unreadable);
  if (!is_folder && !std::filesystem::exists(path, unreadable))
    throw file_error(
        "[model] {}: expected a .gguf file or a folder with config.json, found nothing",
        path.string());
  ModelFile model;
  model.path_ = path;
  if (is_folder && !std::filesystem::exists(path / "config.json", unreadable)) {
    std::filesystem::path gguf = gguf_in(path);
    if (gguf.empty())
      throw file_error("[model] {}: expected config.json or a .gguf file in the folder{}",
                       path.string(),
                       std::filesystem::exists(path / "adapter_config.json", unreadable)
                           ? ", found an adapter, which goes with its model: --adapter"
                           : "");
    model.path_ = gguf;
    is_folder = false;
  }
  bool is_safetensors =
      is_folder || model.path_.extension() == ".safetensors" || model.path_.extension() == ".json";
  if (!is_safetensors) {
    model.file_ = files::GgufFile::open(model.path_);
    model.config_ = config_of_gguf(model.gguf());
    return model;
  }
  const std::filesystem::path folder = is_folder ? path : path.parent_path();
  model.config_ = load_config(folder / "config.json");
  model.file_ = files::SafetensorsFile::open(path);
  if (const std::optional<QuantizationConfig> quantization = read_quantization(folder))
    model.packed_ = std::make_shared<PackedWeights>(*quantization, model.safetensors().tensors());
  return model;
}

ModelFile ModelFile::open_shape(const std::filesystem::path& path) {
  const ModelConfig* known = find_known_shape(path.string());
  ModelFile model = of_shape(known != nullptr && !exists(path) ? *known : load_config(path));
  model.path_ = path;
  return model;
}

ModelFile ModelFile::of_shape(const ModelConfig& config) {
  ModelFile model;
  model.config_ = config;
  return model;
}

ModelFile ModelFile::of_tensors(const ModelConfig& config, files::TensorTable tensors) {
  ModelFile model = of_shape(config);
  model.file_ = std::move(tensors);
  return model;
}

void ModelFile::merge(const Adapter& adapter) {
  const std::vector<Parameter> parameters = parameters_of(config_);
  adapter.expect_all_of(parameters);
  WeightWriter writer(*this, config_, 0, nullptr, &adapter);
  for (const Parameter& each : parameters) {
    if (adapter.find(each) == nullptr) continue;
    const StoredWeight stored = lookup()(each.name, each.shape);
    const bool stays = is_float(stored.dtype) && stored.dtype != DType::kF64;
    const DType type = stays ? stored.dtype : DType::kBF16;
    const std::span<const std::byte> bytes = writer.source(each, stored.name, type).read();
    merged_[stored.name] = {type, {bytes.begin(), bytes.end()}};
  }
}

std::string ModelFile::first_not_finite() const {
  if (!has_weights()) return "";
  const std::vector<files::FileTensor>& all = tensors().all();
  const auto found = std::find_if_not(all.begin(), all.end(), [&](const files::FileTensor& each) {
    return is_finite(stored(each.name));
  });
  return found == all.end() ? "" : found->name;
}

int64_t ModelFile::weight_bytes() const {
  return has_weights() ? tensors().bytes() : storage_bytes(DType::kBF16, config_.parameters());
}

const files::TensorTable& ModelFile::tensors() const {
  RIDGE_CHECK(has_weights(), "a shape has no tensors");
  if (packed_ != nullptr) return packed_->tensors();
  if (const auto* table = std::get_if<files::TensorTable>(&file_)) return *table;
  return is_gguf() ? gguf().tensors() : safetensors().tensors();
}

files::FileTensor ModelFile::stored(const std::string& name) const {
  const files::FileTensor& tensor = tensors().at(name);
  if (packed_ == nullptr) return tensor;
  const std::vector<std::span<const std::byte>> parts = packed_->parts_of(name);
  for (std::span<const std::byte> part : parts) expect(part);
  packed_->bytes(name);
  for (std::span<const std::byte> part : parts) release(part);
  return tensor;
}

std::span<const std::shared_ptr<const files::MappedFile>> ModelFile::mappings() const {
  if (is_gguf()) return {&gguf().mapping(), 1};
  const auto* folder = std::get_if<files::SafetensorsFile>(&file_);
  if (folder == nullptr) return {};
  return folder->mappings();
}

int64_t ModelFile::file_bytes() const {
  int64_t bytes = 0;
  for (const auto& mapping : mappings()) bytes += static_cast<int64_t>(mapping->bytes().size());
  return bytes;
}

std::vector<std::span<const std::byte>> ModelFile::file_parts() const {
  std::vector<std::span<const std::byte>> parts;
  for (const auto& mapping : mappings()) parts.push_back(mapping->bytes());
  return parts;
}

const files::MappedFile* ModelFile::mapping_of(std::span<const std::byte> part) const {
  for (const auto& mapping : mappings()) {
    std::span<const std::byte> all = mapping->bytes();
    if (part.data() >= all.data() && part.data() < all.data() + all.size()) return mapping.get();
  }
  return nullptr;
}

void ModelFile::expect(std::span<const std::byte> part) const {
  if (const files::MappedFile* mapping = mapping_of(part)) mapping->expect(part);
}

void ModelFile::release(std::span<const std::byte> part) const {
  if (const files::MappedFile* mapping = mapping_of(part)) return mapping->release(part);
  if (packed_ != nullptr) packed_->release(part);
}

void ModelFile::keep(std::span<const std::byte> part) const {
  if (packed_ != nullptr) packed_->keep(part);
}

WeightLookup ModelFile::lookup() const {
  return [this](const std::string& parameter, const Shape& shape) -> StoredWeight {
    if (!has_weights()) return {parameter, shape.rank() == 2 ? DType::kBF16 : DType::kF32};
    std::string name = is_gguf() ? gguf_name(config_.family, parameter) : parameter;
    const DType stored = tensors().at(name, shape).dtype;
    const auto merged = merged_.find(name);
    if (merged != merged_.end()) return {name, merged->second.dtype};
    return {name, stored, packed_ == nullptr ? "" : packed_->order_of(name)};
  };
}

}  // namespace ridge::models
