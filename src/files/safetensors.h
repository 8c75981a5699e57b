// SPDX-License-Identifier: Apache-2.0
// safetensors: an 8-byte header length, a JSON header, then the tensors
// end to end. Reading (one file or shards under an index) and writing.
// Names and shapes only; what they mean is models/'s business.
//
// Checked before use: header length, JSON grammar, depth and duplicate keys, dtype, rank, products
// of extents, offsets in range, neither holes nor overlaps, bytes = elements x size. All failures
// are bad-file Errors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "files/mapped_file.h"
#include "files/tensor_table.h"

namespace ridge::files {

using TextMap = std::map<std::string, std::string>;

class SafetensorsFile {
 public:
  // `path` is a .safetensors file, a *.safetensors.index.json, or a folder with model.safetensors
  // or model.safetensors.index.json (looked for in this order, as transformers does). Shards lie
  // beside their index; a tensor that the index does not name is not listed.
  static SafetensorsFile open(const std::filesystem::path& path);
  // One file's bytes, which must outlive the result; `source` names them in messages.
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::string source);

  const TensorTable& tensors() const { return tensors_; }
  const TextMap& metadata() const {
    return metadata_;
  }  // "__metadata__"; shards' entries merged, first wins
  const std::vector<std::shared_ptr<const MappedFile>>& mappings() const { return mappings_; }

 private:
  static SafetensorsFile open_file(const std::filesystem::path& path);
  static SafetensorsFile open_index(const std::filesystem::path& path);

  TensorTable tensors_;
  TextMap metadata_;
  std::vector<std::shared_ptr<const MappedFile>> mappings_;  // keep the tensors' bytes alive
};

// The format's spelling ("BF16"); nullopt for dtypes it lacks, and for spellings that Ridge lacks.
std::optional<std::string_view> safetensors_name(DType dtype);
std::optional<DType> dtype_of_safetensors(std::string_view name);
// The reference implementation's order of dtypes, which
// it sorts files by; -1 for dtypes the format lacks.
int safetensors_rank(DType dtype);

// Writes one file that appears whole or not at all. The order is the reference implementation's:
// wider types first, then by name, so that each tensor is aligned to its element; the same input
// gives the same bytes. Block dtypes, empty and duplicate names are usage Errors.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorSource> tensors,
                       const TextMap& metadata = {{"format", "pt"}});

// Writes model.safetensors into `folder`, or, when the tensors take more than max_shard_bytes,
// shards model-00001-of-0000N.safetensors (filled in the given order) and their index. All shards
// are written before the first appears; the index comes last. An older model.safetensors beside
// shards would be loaded in their stead, so it is an Error.
void write_safetensors_folder(const std::filesystem::path& folder,
                              std::span<const TensorSource> tensors,
                              int64_t max_shard_bytes,
                              const TextMap& metadata = {{"format", "pt"}});

}  // namespace ridge::files
