// SPDX-License-Identifier: Apache-2.0
// What GGUF calls a parameter. Parameters themselves have Hugging Face's names.
#pragma once

#include <string>
#include <string_view>

#include "models/config.h"

namespace ridge::models {

// "model.layers.3.mlp.up_proj.weight" -> "blk.3.ffn_up.weight".
// RIDGE_CHECKs that the family has the parameter.
std::string gguf_name(Family family, std::string_view parameter);

}  // namespace ridge::models
