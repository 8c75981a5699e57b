// SPDX-License-Identifier: Apache-2.0
// Reads a model's configuration from GGUF metadata, key by key.
#include "models/config_gguf.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "base/block_formats.h"
#include "base/error.h"
#include "base/printable.h"
#include "models/rope_factors.h"

namespace ridge::models {
namespace {

constexpr int64_t kMostExtent = int64_t{1} << 24;  // validate() has tighter bounds

class GgufConfigReader {
 public:
  explicit GgufConfigReader(const files::GgufFile& file)
      : file_(file),
        metadata_(file.metadata()),
        architecture_(metadata_.string("general.architecture")) {}

  ModelConfig read() {
    const FamilyFacts* family = family_of_architecture(architecture_);
    if (family == nullptr)
      throw file_error("[gguf] {}: expected the architecture {}, found {}", source(),
                       known_architectures(), printable(architecture_));
    c_.family = family->family;
    c_.name = std::string(metadata_.string_or("general.name", architecture_));
    read_extents();
    c_.norm_eps = metadata_.real(key("attention.layer_norm_rms_epsilon"));
    c_.tied_head = !has("output.weight");
    c_.qkv_bias = has("blk.0.attn_q.bias") || c_.family == Family::kQwen2;
    c_.output_bias = has("blk.0.attn_output.bias");
    c_.mlp_bias = has("blk.0.ffn_down.bias");
    c_.rope_interleaved = family->gguf_interleaves;
    read_rope();
    if (c_.family == Family::kGemma3) read_gemma3();
    try {
      validate(c_);
    } catch (const Error& error) {
      throw file_error("{} in {}", error.what(), source());
    }
    return c_;
  }

 private:
  std::string key(const char* name) const { return fmt::format("{}.{}", architecture_, name); }
  bool has(std::string_view tensor) const { return file_.tensors().find(tensor) != nullptr; }
  const std::string& source() const { return file_.tensors().source(); }

  int64_t extent(const char* name) const { return metadata_.integer(key(name), {1, kMostExtent}); }
  int64_t extent_or(const char* name, int64_t fallback) const {
    return metadata_.integer_or(key(name), fallback, {1, kMostExtent});
  }
  double positive_or(const char* name, double fallback) const {
    double value = metadata_.real_or(key(name), fallback);
    if (!(value > 0))
      throw file_error("[gguf] {}: expected {} > 0, found {}", source(), key(name), value);
    return value;
  }

  void read_extents() {
    if (metadata_.integer_or(key("expert_count"), 0) != 0)
      throw file_error("[gguf] {}: expected a dense model, found {} experts", source(),
                       metadata_.integer(key("expert_count")));
    c_.layers = extent("block_count");
    c_.hidden = extent("embedding_length");
    c_.feed_forward = extent("feed_forward_length");
    c_.heads = extent("attention.head_count");
    c_.kv_heads = extent_or("attention.head_count_kv", c_.heads);
    c_.context = metadata_.integer(key("context_length"), {1, kMostContext});
    if (!metadata_.contains(key("attention.key_length")) && c_.hidden % c_.heads != 0)
      throw file_error(
          "[gguf] {}: expected embedding_length to be a multiple of head_count, found {} and {}",
          source(), c_.hidden, c_.heads);
    c_.head_size = extent_or("attention.key_length", c_.hidden / c_.heads);
    int64_t values = extent_or("attention.value_length", c_.head_size);
    if (values != c_.head_size)
      throw file_error("[gguf] {}: expected value_length to equal key_length {}, found {}",
                       source(), c_.head_size, values);
    // The embedding table determines the number of tokens, because vocab_size is not always
    // present.
    const files::FileTensor& table = file_.tensors().at("token_embd.weight");
    if (table.shape.rank() != 2)
      throw file_error("[gguf] {}: expected token_embd.weight to have rank 2, found {}", source(),
                       table.shape.str());
    c_.vocabulary = table.shape[0];
  }

  void read_rope() {
    int64_t turned = extent_or("rope.dimension_count", c_.head_size);
    if (turned != c_.head_size)
      throw file_error("[gguf] {}: expected {} to equal the head size {}, found {}", source(),
                       key("rope.dimension_count"), c_.head_size, turned);
    c_.rope_theta = positive_or("rope.freq_base", c_.family == Family::kGemma3 ? 1e6 : 1e4);
    std::string_view kind = metadata_.string_or(key("rope.scaling.type"), "none");
    // The old name of a linear factor.
    double old_factor = positive_or("rope.scale_linear", 1);
    if (kind == "linear" || (kind == "none" && old_factor != 1)) {
      c_.rope_scaling.kind = "linear";
      c_.rope_scaling.factor = positive_or("rope.scaling.factor", old_factor);
    } else if (kind != "none") {
      throw file_error("[gguf] {}: expected {} to be 'none' or 'linear', found {}", source(),
                       key("rope.scaling.type"), printable(kind));
    }
    if (has("rope_freqs.weight")) read_frequency_factors();
  }

  void read_frequency_factors() {
    const files::FileTensor& tensor =
        file_.tensors().at("rope_freqs.weight", Shape{c_.head_size / 2});
    if (tensor.dtype != DType::kF32)
      throw file_error("[gguf] {}: expected rope_freqs.weight in f32, found {}", source(),
                       ridge::name(tensor.dtype));
    std::vector<float> factors(static_cast<size_t>(tensor.shape.elements()));
    dequantize(tensor.dtype, tensor.bytes, factors);
    std::optional<RopeScaling> scaling = scaling_of_factors(factors, c_.rope_theta);
    if (!scaling)
      throw file_error(
          "[gguf] {}: expected rope_freqs.weight to follow llama3's scaling, found other factors",
          source());
    if (!scaling->kind.empty()) c_.rope_scaling = *scaling;
  }

  void read_gemma3() {
    c_.norm_offset = 0;  // the file has the 1 already added
    c_.window = metadata_.integer(key("attention.sliding_window"), {1, kMostContext});
    c_.window_rope_theta = positive_or("rope.freq_base_swa", 1e4);
    int64_t pattern = extent_or("attention.sliding_window_pattern", 6);
    if (c_.layers > kMostLayers) return;  // validate() rejects it
    for (int64_t layer = 0; layer < c_.layers; ++layer)
      c_.is_window_layer.push_back((layer + 1) % pattern != 0);
    c_.attention_scale = gguf_attention_scale(c_);
    c_.logit_cap = metadata_.real_or(key("final_logit_softcapping"), 0);
  }

  const files::GgufFile& file_;
  const files::GgufMetadata& metadata_;
  std::string_view architecture_;
  ModelConfig c_;
};

}  // namespace

double gguf_attention_scale(const ModelConfig& c) {
  constexpr int64_t kLayersOf27B = 62;
  double scalar = c.layers == kLayersOf27B
                      ? static_cast<double>(c.hidden) / static_cast<double>(c.heads)
                      : static_cast<double>(c.head_size);
  return 1 / std::sqrt(scalar);
}

ModelConfig config_of_gguf(const files::GgufFile& file) { return GgufConfigReader(file).read(); }

}  // namespace ridge::models
