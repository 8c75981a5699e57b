// SPDX-License-Identifier: Apache-2.0
// A model in another format: Hugging Face's folder to GGUF and back, or the same format in other
// element types. What is written appears whole or not at all.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "models/model_file.h"

namespace ridge::models {

struct ConvertOptions {
  std::optional<DType> type;  // of matrices; see stored_types.h for what is chosen without it, and
                              // for the exceptions
  int64_t max_shard_bytes = int64_t{5} << 30;                           // of a folder's files
  std::function<void(int64_t done, int64_t total)> progress = nullptr;  // bytes; may be empty
};

struct ConvertResult {
  int64_t tensors = 0;
  int64_t bytes = 0;  // of the tensors
  // What was left out or done otherwise than asked, a sentence each
  std::vector<std::string> notes;
};

// To a GGUF file for Ridge and llama.cpp. A file already there is replaced.
ConvertResult convert_to_gguf(const ModelFile& file,
                              const std::filesystem::path& out,
                              const ConvertOptions& options);

// To a folder for Ridge and transformers, which must be new or empty.
ConvertResult convert_to_folder(const ModelFile& file,
                                const std::filesystem::path& out,
                                const ConvertOptions& options);

}  // namespace ridge::models
