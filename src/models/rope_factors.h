// SPDX-License-Identifier: Apache-2.0
// llama3's RoPE scaling as GGUF stores it: the factor that divides each frequency, instead of the
// four numbers that define the factors. Converts in both directions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "models/config.h"

namespace ridge::models {

// E/2 factors.
std::vector<float> rope_factors(const RopeScaling& scaling, int64_t head_size, double theta);

// The scaling that has these factors; kind "" if all are 1, nullopt if llama3's formula does not
// produce them. The numbers of the published models are tried first. Others are determined only up
// to a common scale of original_context and the two frequency factors, so the low one is set to 1.
std::optional<RopeScaling> scaling_of_factors(std::span<const float> factors, double theta);

}  // namespace ridge::models
