// SPDX-License-Identifier: Apache-2.0
// Saves a trained model in a form that other programs read. The optimizer's moments are not saved,
// so training cannot resume from it; checkpoint.h saves those too.
#pragma once

#include <filesystem>
#include <span>

#include "models/tokenizer_file.h"
#include "train/saved_state.h"
#include "train/trainer.h"

namespace ridge::train {

// Saves config.json and model.safetensors in fp32, for Ridge and transformers, and the files of the
// tokenizer, which may be null. The folder must be new or empty; it appears complete or not at all. Throws a run-time Error
// if a parameter is not finite.
void save_model(const Trainer& trainer,
                const std::filesystem::path& folder,
                const models::TokenizerFile* tokenizer = nullptr);

// The parts of save_model: throws that Error; writes the files into an existing folder.
void expect_finite(std::span<const SavedTensor> tensors, const std::filesystem::path& folder);
void write_model(const models::ModelConfig& config,
                 std::span<const SavedTensor> weights,
                 const models::TokenizerFile* tokenizer,
                 const std::filesystem::path& folder);

}  // namespace ridge::train
