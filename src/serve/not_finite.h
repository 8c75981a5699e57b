// SPDX-License-Identifier: Apache-2.0
// Errors for what a model computes that is NaN or infinite. They name the first tensor of the file
// that is not finite; if all tensors are finite, the fault is that of the run.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "models/model_file.h"

namespace ridge::serve {

// Throws a file Error or a run-time Error if a value, which `what` names, is not finite.
void expect_finite(const models::ModelFile& file,
                   std::string_view what,
                   std::span<const float> values);
// The same for sampled tokens: logits that are not finite gave -1.
void expect_tokens(const models::ModelFile& file, std::span<const int32_t> tokens);

}  // namespace ridge::serve
