// SPDX-License-Identifier: Apache-2.0
// Builds a graph of one token and records the parameters that it looks up.
#include "models/parameter_list.h"

#include "models/forward_graph.h"
#include "ops/registry.h"

namespace ridge::models {

std::vector<Parameter> parameters_of(const ModelConfig& config) {
  std::vector<Parameter> list;
  auto note = [&](const std::string& name, const Shape& shape) -> StoredWeight {
    list.push_back({name, shape});
    return {name, DType::kF32};
  };
  InferenceShape shape;
  shape.cached = false;
  build_inference_graph(config, ops::table(), shape, note);
  return list;
}

bool is_norm(std::string_view parameter) { return parameter.ends_with("norm.weight"); }

bool is_rotated(std::string_view parameter) {
  return parameter.find(".self_attn.q_proj.") != std::string_view::npos ||
         parameter.find(".self_attn.k_proj.") != std::string_view::npos;
}

bool is_head(const ModelConfig& config, std::string_view parameter) {
  return parameter == (config.tied_head ? "model.embed_tokens.weight" : "lm_head.weight");
}

}  // namespace ridge::models
