// SPDX-License-Identifier: Apache-2.0
// The parameters of a configuration, with their shapes. The list is what the graph asks for, so the
// two cannot differ.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "models/config.h"

namespace ridge::models {

struct Parameter {
  std::string name;  // Hugging Face's
  Shape shape;       // row-major: [out, in] of a matrix
};

// In the order of the graph: the table of embeddings,
// the layers, the last norm, a head that is not tied.
std::vector<Parameter> parameters_of(const ModelConfig& config);

bool is_norm(std::string_view parameter);
// Queries' and keys' rows (and biases) lie in the order of the pairs that RoPE turns.
bool is_rotated(std::string_view parameter);
// The matrix that makes logits: the head, or the table of embeddings where it is tied.
bool is_head(const ModelConfig& config, std::string_view parameter);

}  // namespace ridge::models
