// SPDX-License-Identifier: Apache-2.0
// Converts a model to another format: Hugging Face's folder to GGUF and back, or the same format in
// other element types. A shape without weights becomes a model with random ones. The output appears
// complete or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/adapter.h"
#include "models/model_file.h"

namespace ridge::models {

struct ConvertOptions {
  // Matrices are stored in it; see stored_types.h for the default and for the exceptions.
  std::optional<DType> type;
  int64_t max_shard_bytes = int64_t{5} << 30;  // per file of a folder
  uint64_t seed = 0;                           // the weights of a shape are drawn from it
  const Adapter* adapter = nullptr;            // merged into the weights; may be null
  std::function<void(int64_t done, int64_t total)> progress = nullptr;  // bytes; may be empty
};

struct ConvertResult {
  int64_t tensors = 0;
  int64_t bytes = 0;  // the tensors have so many
  // Each says in one sentence what was left out or differs from the request.
  std::vector<std::string> notes;
};

// Converts to a GGUF file for Ridge and llama.cpp. An existing file is replaced.
ConvertResult convert_to_gguf(const ModelFile& file,
                              const std::filesystem::path& out,
                              const ConvertOptions& options);

// Converts to a folder for Ridge and transformers, which must be new or empty.
ConvertResult convert_to_folder(const ModelFile& file,
                                const std::filesystem::path& out,
                                const ConvertOptions& options);

}  // namespace ridge::models
