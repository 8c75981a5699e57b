// SPDX-License-Identifier: Apache-2.0
// A model's configuration in GGUF metadata, read and
// written, for the architectures "llama" and "gemma3".
#pragma once

#include "files/gguf_file.h"
#include "files/gguf_writer.h"
#include "models/config.h"

namespace ridge::models {

// A bad-file Error names the key, what was expected and what was found. Tensors are looked at where
// the metadata is silent: a separate head, biases, llama3's frequency factors.
ModelConfig config_of_gguf(const files::GgufFile& file);

// The keys that config_of_gguf reads, but for what tensors say. A usage Error names what GGUF
// cannot say. The configuration is in GGUF's form: Llama's pairs side by side, no norm offset.
void set_config(files::GgufWriter& writer, const ModelConfig& config);

// What Gemma 3's queries are multiplied by: no key
// says it, the number of layers and the head size do.
double gguf_attention_scale(const ModelConfig& config);

}  // namespace ridge::models
