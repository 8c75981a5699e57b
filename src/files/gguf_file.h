// SPDX-License-Identifier: Apache-2.0
// GGUF versions 2 and 3, little endian, read in place from a mapped file: metadata and tensors.
// models/ interprets keys and tensor names. Writing is in gguf_writer.h.
//
// Checked before use: magic, version, counts against the bytes left, keys and names (length,
// duplicates), types, ranks, products of extents, whole blocks per row, alignment, and that tensors
// are inside the data without overlap. All failures are bad-file Errors that name the field.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>

#include "files/gguf_metadata.h"
#include "files/mapped_file.h"
#include "files/tensor_table.h"

namespace ridge::files {

class GgufFile {
 public:
  static GgufFile open(const std::filesystem::path& path);
  // `bytes` is a whole file and must outlive the result; `source` names it in messages.
  static GgufFile parse(std::span<const std::byte> bytes, std::string source);

  uint32_t version() const { return version_; }
  int64_t alignment_bytes() const { return alignment_bytes_; }
  int64_t header_bytes() const { return header_bytes_; }  // where the tensors' data begins
  const GgufMetadata& metadata() const { return metadata_; }
  // Shapes are row-major ([out, in] for a weight); the file lists the innermost dimension first.
  const TensorTable& tensors() const { return tensors_; }
  // Null after parse().
  const std::shared_ptr<const MappedFile>& mapping() const { return mapping_; }

 private:
  uint32_t version_ = 0;
  int64_t alignment_bytes_ = 0;
  int64_t header_bytes_ = 0;
  GgufMetadata metadata_;
  TensorTable tensors_;
  std::shared_ptr<const MappedFile> mapping_;  // keeps the bytes behind metadata and tensors alive
};

}  // namespace ridge::files
