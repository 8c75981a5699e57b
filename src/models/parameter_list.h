// SPDX-License-Identifier: Apache-2.0
// The parameters of a configuration, with their shapes. The list is recorded while a graph is
// built, so it cannot differ from the graph.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "models/config.h"

namespace ridge::models {

struct Parameter {
  std::string name;  // as in Hugging Face's files
  Shape shape;       // row-major: [out, in] for a matrix
};

// In the order of the graph: the embedding table, the layers, the last norm, and the head unless it
// is tied.
std::vector<Parameter> parameters_of(const ModelConfig& config);

bool is_norm(std::string_view parameter);
// True for the weights and biases of q and k, whose rows are in the order of RoPE's pairs.
bool is_rotated(std::string_view parameter);
// The matrix that computes logits: the head, or the embedding table if the head is tied.
bool is_head(const ModelConfig& config, std::string_view parameter);

}  // namespace ridge::models
