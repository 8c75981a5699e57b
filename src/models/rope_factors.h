// SPDX-License-Identifier: Apache-2.0
// llama3's RoPE scaling as GGUF stores it: not the four numbers behind it, but for each frequency
// the factor that divides it. Both directions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/config.h"

namespace ridge::models {

// E/2 factors.
std::vector<float> rope_factors(const RopeScaling& scaling, int64_t head_size, double theta);

// The scaling with these factors, of kind "" where all are 1; nothing where
// llama3's formula does not give them. The numbers of the published models are
// tried first; others are known only up to a common scale of original_context
// and the two frequency factors, of which the low one is then called 1.
std::optional<RopeScaling> scaling_of_factors(std::span<const float> factors, double theta);

}  // namespace ridge::models
