// SPDX-License-Identifier: Apache-2.0
// Saves a trained model in a form that other programs read. The optimizer's moments are not saved,
// so training cannot resume from it.
#pragma once

#include <filesystem>

#include "train/trainer.h"

namespace ridge::train {

// Saves config.json and model.safetensors in fp32, for Ridge and transformers. The folder must be
// new or empty; it appears complete or not at all. Throws a run-time Error if a parameter is not
// finite.
void save_model(Trainer& trainer, const std::filesystem::path& folder);

}  // namespace ridge::train
