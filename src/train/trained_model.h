// SPDX-License-Identifier: Apache-2.0
// What was trained, as a model that others read. The optimizer's moments are not kept: training
// does not go on from it.
#pragma once

#include <filesystem>

#include "train/trainer.h"

namespace ridge::train {

// config.json and model.safetensors in fp32 for Ridge and transformers, in a folder that appears
// whole or not at all and must be new or empty. A parameter that is not finite is a run-time Error.
void save_model(Trainer& trainer, const std::filesystem::path& folder);

}  // namespace ridge::train
