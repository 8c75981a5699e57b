// SPDX-License-Identifier: Apache-2.0
// The adapters of the pass `lora` in training: their first values, and their files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/shape.h"
#include "models/adapter.h"
#include "train/saved_state.h"

namespace ridge::train {

// The first values of an adapter's parameter, as in PEFT: B is 0, so that the model begins unchanged;
// A [rank,in] is uniform within 1 / sqrt(in). They depend only on the seed, the name and the element.
std::vector<float> initial_adapter(std::string_view name, const Shape& shape, uint32_t seed);

// Writes adapter_config.json and adapter_model.safetensors, PEFT's files, into an existing folder.
void write_adapter(const StepOptions& options,
                   std::span<const SavedTensor> adapters,
                   const std::filesystem::path& folder);

}  // namespace ridge::train
