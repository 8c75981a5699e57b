// SPDX-License-Identifier: Apache-2.0
// The configuration of a model: extents and the options of its family.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "models/family.h"

namespace ridge::models {

struct RopeScaling {
  std::string kind;  // "", "linear" or "llama3"
  double factor = 1;
  double original_context = 0;
  double low_frequency_factor = 1;
  double high_frequency_factor = 1;
};

struct ModelConfig {
  std::string name;
  Family family = Family::kLlama;
  int64_t vocabulary = 0;    // V
  int64_t hidden = 0;        // D
  int64_t layers = 0;        // L
  int64_t heads = 0;         // H
  int64_t kv_heads = 0;      // K
  int64_t head_size = 0;     // E, may differ from D / H
  int64_t feed_forward = 0;  // F
  int64_t context = 0;       // the longest sequence the model was made for
  double rope_theta = 1e4;
  bool rope_interleaved = false;  // pairs (x[2i], x[2i+1]) instead of (x[i], x[i+E/2])
  RopeScaling rope_scaling;
  double norm_eps = 1e-6;
  double norm_offset = 0;  // added to a norm's weight: 1 if a file stores w of Gemma's (1 + w)
  bool tied_head = true;
  bool qkv_bias = false;     // on q, k and v
  bool output_bias = false;  // on o
  bool mlp_bias = false;     // on gate, up and down
  // Gemma 3 has windows, and constants of its own. Mistral and Qwen may have windows.
  std::vector<bool> is_window_layer;  // per layer; empty: none
  int64_t window = 0;
  double window_rope_theta = 1e4;  // window layers have it
  double attention_scale = 0;      // 0: 1 / sqrt(E)
  double logit_cap = 0;            // c tanh(x / c) instead of each logit x; 0: none
  // The ids below it have a token in the model's tokenizer; the rows of V after them are padding
  // and are never sampled. 0: every id has one.
  int64_t tokens = 0;

  int64_t sampled_vocabulary() const { return tokens > 0 ? tokens : vocabulary; }

  bool is_window(int64_t layer) const {
    return window > 0 && !is_window_layer.empty() && is_window_layer[static_cast<size_t>(layer)];
  }
  // Whether each head of q and k is normalized before it is rotated.
  bool has_head_norms() const { return family == Family::kQwen3 || family == Family::kGemma3; }
  // Whether any layer attends to a window, and whether any attends to all positions.
  bool has_window_layers() const;
  bool has_full_layers() const;
  int64_t parameters() const;  // in closed form
};

// The form in which a folder for transformers stores the weights of a model: heads split into
// halves, and Gemma's norms as w of (1 + w). Training takes it too, because weight decay pulls what
// is stored towards 0.
ModelConfig folder_form(const ModelConfig& config);

// Bounds of every extent, the same for each file format. They are far above any model, and within
// them no product or sum of extents and their bytes overflows 63 bits.
inline constexpr int64_t kMostVocabulary = int64_t{1} << 24;
inline constexpr int64_t kMostHidden = int64_t{1} << 20;
inline constexpr int64_t kMostLayers = 4096;
inline constexpr int64_t kMostHeads = int64_t{1} << 14;
inline constexpr int64_t kMostHeadSize = 4096;
inline constexpr int64_t kMostFeedForward = int64_t{1} << 22;
inline constexpr int64_t kMostContext = int64_t{1} << 27;
inline constexpr int64_t kMostParameters = int64_t{1} << 44;

// Throws a usage Error that names the field (by its key in config.json): extents must be positive
// and bounded, heads a multiple of KV heads, the head size even, factors finite.
void validate(const ModelConfig& config);

// tiny, small, medium and large: the sizes of the published training runs (docs/accounting.md).
struct Preset {
  ModelConfig config;
  int64_t batch_size;
  int64_t sequence;
};
std::span<const Preset> presets();
const Preset& preset(std::string_view name);  // throws a usage Error that lists the names

}  // namespace ridge::models
