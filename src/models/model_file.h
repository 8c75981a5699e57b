// SPDX-License-Identifier: Apache-2.0
// A model on disk, as a GGUF file or Hugging Face's folder, or in memory: its configuration, and
// its weights by parameter name, in place in the mapped file. The tokenizer in the same place is
// read by tokenizer_file.h.
#pragma once

#include <algorithm>
#include <filesystem>
#include <map>
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

class Adapter;
class PackedWeights;

class ModelFile {
 public:
  // Opens a .gguf file or a folder with one, a folder with config.json and safetensors, or a
  // .safetensors file or index next to its config.json. Throws bad-file Errors.
  static ModelFile open(const std::filesystem::path& path);
  // Opens only a config.json, or a folder's, or else the known shape of that name: a model without
  // stored weights, whose matrices count as bf16 and can be made up where only times matter.
  static ModelFile open_shape(const std::filesystem::path& path);
  static ModelFile of_shape(const ModelConfig& config);
  // A model whose weights are in memory, under Hugging Face's names. Their bytes must outlive it.
  static ModelFile of_tensors(const ModelConfig& config, files::TensorTable tensors);

  // Merges a LoRA adapter. The weights that it changes are then in memory: in the file's type, or
  // in bf16 instead of a quantized one, which loses small changes. Throws bad-file Errors for an
  // adapter of another model.
  void merge(const Adapter& adapter);

  const ModelConfig& config() const { return config_; }
  // Notes that only this many ids have a token, for a vocabulary padded beyond its tokenizer.
  void limit_tokens(int64_t tokens) { config_.tokens = std::min(tokens, config_.vocabulary); }
  const std::filesystem::path& path() const { return path_; }
  const files::TensorTable& tensors() const;
  bool has_weights() const { return !std::holds_alternative<std::monostate>(file_); }
  bool is_gguf() const { return std::holds_alternative<files::GgufFile>(file_); }
  const files::GgufFile& gguf() const { return std::get<files::GgufFile>(file_); }
  const files::SafetensorsFile& safetensors() const {
    return std::get<files::SafetensorsFile>(file_);
  }

  // For build_inference_graph. Throws a bad-file Error that names a tensor that is missing or has
  // another shape. The file must outlive the result.
  WeightLookup lookup() const;
  // The bytes of a tensor by its name in the file; valid as long as this object.
  std::span<const std::byte> bytes(const std::string& name) const {
    const auto merged = merged_.find(name);
    return merged == merged_.end() ? stored(name).bytes : merged->second.bytes;
  }
  // A tensor of the file, without an adapter. Packed weights are converted now, if they are not;
  // until then tensors() has zeros in the place of their bytes.
  files::FileTensor stored(const std::string& name) const;
  // The name of the first tensor with a value that is NaN or infinite; empty if all values are
  // finite. Reads the whole file.
  std::string first_not_finite() const;
  int64_t weight_bytes() const;  // all tensors have so many; without weights, the size in bf16
  // The size of all files, their mapped bytes, the hints of files::MappedFile that a part is read
  // soon or not again, and that a part is used in place.
  int64_t file_bytes() const;
  std::vector<std::span<const std::byte>> file_parts() const;
  void expect(std::span<const std::byte> part) const;
  void release(std::span<const std::byte> part) const;
  void keep(std::span<const std::byte> part) const;

 private:
  std::span<const std::shared_ptr<const files::MappedFile>> mappings() const;
  // Null for a weight in memory.
  const files::MappedFile* mapping_of(std::span<const std::byte> part) const;

  struct Merged {
    DType dtype;
    std::vector<std::byte> bytes;
  };

  std::filesystem::path path_;
  ModelConfig config_;
  std::variant<std::monostate, files::GgufFile, files::SafetensorsFile, files::TensorTable> file_;
  std::map<std::string, Merged> merged_;   // by the name in the file
  std::shared_ptr<PackedWeights> packed_;  // null unless the folder's matrices are packed
};

// "GGUF", "safetensors", or "random weights" of a shape.
inline const char* format_name(const ModelFile& file) {
  return !file.has_weights() ? "random weights" : file.is_gguf() ? "GGUF" : "safetensors";
}

}  // namespace ridge::models
