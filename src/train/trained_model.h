// SPDX-License-Identifier: Apache-2.0
// Saves a trained model in a form that other programs read. The optimizer's moments are not saved,
// so training cannot resume from it; checkpoint.h saves those too.
#pragma once

#include <filesystem>
#include <span>

#include "files/atomic_folder.h"
#include "models/tokenizer_file.h"
#include "train/saved_state.h"
#include "train/trainer.h"

namespace ridge::train {

// Saves config.json and model.safetensors in fp32, for Ridge and transformers, and the files of the
// tokenizer, which may be null. Trained adapters are saved in PEFT's files instead. The folder must
// be new or empty, unless it may be replaced; it appears complete or not at all. Throws a run-time
// Error if a parameter is not finite. Every rank calls it; the first one writes.
void save_model(const Trainer& trainer,
                const std::filesystem::path& folder,
                const models::TokenizerFile* tokenizer = nullptr,
                files::AtomicFolder::Existing existing = files::AtomicFolder::Existing::kRefuse);

// The parts of save_model. Throws that Error.
void expect_finite(std::span<const SavedTensor> tensors, const std::filesystem::path& folder);
// The facts that are saved with the weights.
struct SavedForm {
  explicit SavedForm(const Trainer& trainer);
  models::ModelConfig config;
  StepOptions options;
  bool has_adapters = false;
};
// Write files into an existing folder: the configuration, the tokenizer, which may be null, and the
// weights or adapters with the tokenizer.
void write_config(const SavedForm& form,
                  const models::TokenizerFile* tokenizer,
                  const std::filesystem::path& folder);
void write_tokenizer(const models::TokenizerFile* tokenizer, const std::filesystem::path& folder);
void write_weights(const SavedForm& form,
                   std::span<const SavedTensor> weights,
                   const models::TokenizerFile* tokenizer,
                   const std::filesystem::path& folder);

}  // namespace ridge::train
