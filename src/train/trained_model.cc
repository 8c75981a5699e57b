// SPDX-License-Identifier: Apache-2.0
// Writes the files of a model into a folder.
#include "train/trained_model.h"

#include "base/error.h"
#include "base/finite.h"
#include "files/atomic_file.h"
#include "files/atomic_folder.h"
#include "files/safetensors.h"
#include "models/config_json.h"

namespace ridge::train {

void expect_finite(std::span<const SavedTensor> tensors, const std::filesystem::path& folder) {
  for (const SavedTensor& each : tensors)
    if (!all_finite(each.values))
      throw runtime_error("[{}] nothing is saved: {} has values that are not finite",
                          folder.string(), each.name);
}

void write_model(const models::ModelConfig& config,
                 std::span<const SavedTensor> weights,
                 const models::TokenizerFile* tokenizer,
                 const std::filesystem::path& folder) {
  const text::TokenizerSpec* spec = tokenizer == nullptr ? nullptr : &tokenizer->spec;
  files::write_file(folder / "config.json", models::config_json(config, DType::kF32, spec));
  if (tokenizer != nullptr)
    for (const auto& [name, text] : models::tokenizer_files(*spec, tokenizer->chat_template))
      files::write_file(folder / name, text);
  files::write_safetensors(folder / "model.safetensors", sources_of(weights));
}

void save_model(const Trainer& trainer,
                const std::filesystem::path& folder,
                const models::TokenizerFile* tokenizer) {
  const std::vector<SavedTensor> weights = saved_tensors(trainer);
  expect_finite(weights, folder);
  files::AtomicFolder made(folder);
  write_model(saved_config(trainer), weights, tokenizer, made.inside());
  made.commit();
}

}  // namespace ridge::train
