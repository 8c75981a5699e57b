// SPDX-License-Identifier: Apache-2.0
// The contents of a model file and the memory that the model needs, as ridge inspect shows them.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "files/gguf_metadata.h"
#include "files/safetensors.h"
#include "files/tensor_table.h"

namespace ridge::record {

// The file must outlive it.
struct ModelContents {
  struct TypeTotal {
    int64_t tensors = 0, elements = 0, bytes = 0;
  };
  struct MemoryNeed {
    int64_t context = 0, cache_bytes = 0;
  };
  using Value = std::variant<int64_t, bool, double, std::string>;
  using Config = std::vector<std::pair<std::string, Value>>;

  std::string path;
  std::string format;  // "GGUF 3" or "safetensors in 2 files"
  std::string architecture, name;
  Config config = {};
  const files::TensorTable* tensors = nullptr;
  const files::GgufMetadata* gguf = nullptr;    // null: safetensors
  const files::TextMap* safetensors = nullptr;  // null: GGUF
  int64_t parameters = 0;
  int64_t weight_bytes = 0;  // tensors that the model reads, as stored
  std::map<std::string, TypeTotal> types = {};
  std::vector<std::string> unread = {};  // tensors that the model does not read
  std::vector<MemoryNeed> memory = {};
  std::string cache_dtype;  // as --cache-dtype spells it

  double bits_per_weight() const {
    return 8.0 * static_cast<double>(weight_bytes) / static_cast<double>(parameters);
  }
};

}  // namespace ridge::record
