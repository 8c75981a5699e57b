// SPDX-License-Identifier: Apache-2.0
// Reads and writes a model's configuration in GGUF metadata, for the architectures of
// family.h.
#pragma once

#include "files/gguf_file.h"
#include "files/gguf_writer.h"
#include "models/config.h"

namespace ridge::models {

// Throws a bad-file Error that names the key, what was expected and what was found. Tensors supply
// what the metadata lacks: a separate head, biases, llama3's frequency factors.
ModelConfig config_of_gguf(const files::GgufFile& file);

// Writes the keys that config_of_gguf reads, except what tensors supply. Throws a usage Error for
// what GGUF cannot represent. The configuration must be in GGUF's form: adjacent RoPE pairs for
// the architecture llama, no norm offset.
void set_config(files::GgufWriter& writer, const ModelConfig& config);

// The factor on Gemma 3's queries. GGUF has no key for it; it follows from the number of layers and
// the head size.
double gguf_attention_scale(const ModelConfig& config);

}  // namespace ridge::models
