// SPDX-License-Identifier: Apache-2.0
// The families of models, and how files call them and lay out their weights.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace ridge::models {

enum class Family : uint8_t { kLlama, kMistral, kQwen2, kQwen3, kGemma3 };

struct FamilyFacts {
  Family family;
  std::string_view name;        // for people, without spaces
  std::string_view model_type;  // in config.json
  std::string_view transformers_class;
  std::string_view architecture;  // GGUF's general.architecture
  // GGUF converters reorder the rows of q and k so that the pairs of RoPE are adjacent. They do so
  // for the architecture "llama" alone; all others keep halves.
  bool gguf_interleaves;
  // config.json can ask for biases on q, k, v and o together by "attention_bias", and on the MLP by
  // "mlp_bias".
  bool has_attention_bias_key, has_mlp_bias_key;
};

std::span<const FamilyFacts> families();
const FamilyFacts& facts(Family family);

// Null if no family has it. Several families share the architecture "llama": the first is returned.
const FamilyFacts* family_of_model_type(std::string_view model_type);
const FamilyFacts* family_of_architecture(std::string_view architecture);

// "'llama', 'qwen2' or 'gemma3'", each name once, for messages.
std::string known_model_types();
std::string known_architectures();

}  // namespace ridge::models
