// SPDX-License-Identifier: Apache-2.0
// Maps Hugging Face's parameter names, which Ridge uses, to GGUF's.
#pragma once

#include <string>
#include <string_view>

#include "models/config.h"

namespace ridge::models {

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight".
// RIDGE_CHECKs that the family has the parameter.
std::string gguf_name(Family family, std::string_view parameter);

}  // namespace ridge::models
