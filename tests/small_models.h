// SPDX-License-Identifier: Apache-2.0
// The small models of tests/data/models, with the logits, losses and gradients of transformers.
#pragma once

#include <array>

namespace ridge {

inline constexpr std::array kSmallModels = {
    "llama_fp32",   "llama3_bf16_sharded", "gemma3_bf16",       "gemma3_cap_fp32",
    "mistral_fp32", "qwen2_fp32",          "qwen2_window_fp32", "qwen3_bf16"};

}  // namespace ridge
