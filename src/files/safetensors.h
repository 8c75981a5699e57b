// SPDX-License-Identifier: Apache-2.0
// safetensors: an 8-byte header length, a JSON header, then the tensors end to end. Reads and
// writes one file, or shards with an index. It handles names and shapes only; models/ interprets
// them.
//
// Checked before use: header length, JSON grammar, depth and duplicate keys, dtype, rank, products
// of extents, offsets in range, no holes or overlaps, bytes = elements x size. All failures are
// bad-file Errors.
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
  // or model.safetensors.index.json (tried in this order, as in transformers). Shards are in the
  // folder of their index; a tensor that the index does not name is left out.
  static SafetensorsFile open(const std::filesystem::path& path);
  // `bytes` is one file and must outlive the result; `source` names it in messages.
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::string source);

  const TensorTable& tensors() const { return tensors_; }
  // The entries of "__metadata__". Those of shards are merged; the first one wins.
  const TextMap& metadata() const { return metadata_; }
  const std::vector<std::shared_ptr<const MappedFile>>& mappings() const { return mappings_; }

 private:
  static SafetensorsFile open_file(const std::filesystem::path& path);
  static SafetensorsFile open_index(const std::filesystem::path& path);

  TensorTable tensors_;
  TextMap metadata_;
  std::vector<std::shared_ptr<const MappedFile>> mappings_;  // keep the tensors' bytes alive
};

// The format's spelling of a dtype ("BF16"), and the reverse; nullopt for dtypes that the format
// lacks, and for spellings that Ridge lacks.
std::optional<std::string_view> safetensors_name(DType dtype);
std::optional<DType> dtype_of_safetensors(std::string_view name);
// Rank of a dtype in the reference implementation, which sorts files by it; -1 for dtypes that the
// format lacks.
int safetensors_rank(DType dtype);

// Writes one file, which appears complete or not at all. The order is the reference
// implementation's: wider types first, then by name, so that each tensor is aligned to its element
// size. The same input gives the same bytes. Block dtypes, empty names and duplicate names are
// usage Errors.
void write_safetensors(const std::filesystem::path& path,
                       std::span<const TensorSource> tensors,
                       const TextMap& metadata = {{"format", "pt"}});

// Writes model.safetensors into `folder`. If the tensors take more than max_shard_bytes, writes
// shards model-00001-of-0000N.safetensors instead (filled in the given order) and their index. All
// shards are written before the first one appears; the index comes last. A model.safetensors that
// already exists would be loaded instead of the shards, so it is an Error.
void write_safetensors_folder(const std::filesystem::path& folder,
                              std::span<const TensorSource> tensors,
                              int64_t max_shard_bytes,
                              const TextMap& metadata = {{"format", "pt"}});

}  // namespace ridge::files
