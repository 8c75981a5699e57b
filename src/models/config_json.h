// SPDX-License-Identifier: Apache-2.0
// config.json in the key names of Hugging Face, read and written, for the Llama and Gemma 3
// families, old and new RoPE keys.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "base/dtype.h"
#include "models/config.h"
#include "text/tokenizer_spec.h"

namespace ridge::models {

// Takes a config.json or a folder that holds one. A bad-file Error names the key, what was expected
// and what was found; unknown keys are ignored, since published files carry many.
ModelConfig load_config(const std::filesystem::path& path);
ModelConfig parse_config(const nlohmann::json& json, std::string_view source);

// The text of a config.json that transformers reads, weights in `dtype` (f32, f16 or bf16). The
// configuration is in Hugging Face's form: split halves in RoPE, Gemma's norms as w of (1 + w).
// `tokenizer` may be null.
std::string config_json(const ModelConfig& config,
                        DType dtype,
                        const text::TokenizerSpec* tokenizer);

}  // namespace ridge::models
