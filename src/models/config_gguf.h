// SPDX-License-Identifier: Apache-2.0
// Reads a model's configuration from GGUF metadata, for the architectures "llama" and "gemma3".
#pragma once

#include "files/gguf_file.h"
#include "models/config.h"

namespace ridge::models {

// A bad-file Error names the key, what was expected and what was found. Tensors are looked at where the metadata is
// silent: a separate head, biases, llama3's frequency factors.
ModelConfig config_of_gguf(const files::GgufFile& file);

}  // namespace ridge::models
