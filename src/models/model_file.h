// SPDX-License-Identifier: Apache-2.0
// A model on disk, GGUF or Hugging Face's folder: its configuration,
// and its weights by parameter name where they lie in the mapping.
// The tokenizer in the same place is tokenizer_file.h's business.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "files/gguf_file.h"
#include "files/safetensors.h"
#include "models/config.h"
#include "models/forward_graph.h"

namespace ridge::models {

class ModelFile {
 public:
  // A .gguf file, a folder with config.json and safetensors, or a .safetensors file or index beside
  // its config.json. Bad-file Errors.
  static ModelFile open(const std::filesystem::path& path);
  // A config.json, or its folder, alone: a model of that shape whose matrices are bf16 that nobody
  // stored, to be made up where times are all that is asked for.
  static ModelFile open_shape(const std::filesystem::path& path);
  static ModelFile of_shape(const ModelConfig& config);

  const ModelConfig& config() const { return config_; }
  const std::filesystem::path& path() const { return path_; }
  const files::TensorTable& tensors() const;
  bool has_weights() const { return !std::holds_alternative<std::monostate>(file_); }
  bool is_gguf() const { return std::holds_alternative<files::GgufFile>(file_); }
  const files::GgufFile& gguf() const { return std::get<files::GgufFile>(file_); }
  const files::SafetensorsFile& safetensors() const {
    return std::get<files::SafetensorsFile>(file_);
  }

  // For build_inference_graph: a bad-file Error names a tensor that is missing or has another
  // shape. The file must outlive the result.
  WeightLookup lookup() const;
  // The bytes of a tensor by its name in the file; they live as long as this object.
  std::span<const std::byte> bytes(const std::string& name) const {
    return tensors().at(name).bytes;
  }
  int64_t weight_bytes() const;  // of all tensors; of a shape alone, what bf16 would take
  // Of all files; where each is mapped; and a hint of
  // what is read no more, as of files::MappedFile.
  int64_t file_bytes() const;
  std::vector<std::span<const std::byte>> file_parts() const;
  void release(std::span<const std::byte> part) const;

 private:
  std::span<const std::shared_ptr<const files::MappedFile>> mappings() const;

  std::filesystem::path path_;
  ModelConfig config_;
  std::variant<std::monostate, files::GgufFile, files::SafetensorsFile> file_;
};

}  // namespace ridge::models
