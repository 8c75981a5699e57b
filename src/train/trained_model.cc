// SPDX-License-Identifier: Apache-2.0
// Writes the files of a model into a folder.
#include "train/trained_model.h"

#include "base/error.h"
#include "base/finite.h"
#include "files/atomic_file.h"
#include "files/safetensors.h"
#include "models/adapter.h"
#include "models/config_json.h"

namespace ridge::train {
namespace {

// Writes adapter_config.json and adapter_model.safetensors, PEFT's files, into an existing folder.
void write_adapter(const StepOptions& options,
                   std::span<const SavedTensor> adapters,
                   const std::filesystem::path& folder) {
  const models::AdapterConfig config{options.lora.rank, options.lora.alpha, options.lora.targets,
                                     options.base_model};
  files::write_file(folder / models::kAdapterConfig, models::adapter_config_json(config));
  std::vector<files::TensorSource> sources = sources_of(adapters);
  for (files::TensorSource& each : sources) each.name = models::kAdapterPrefix + each.name;
  files::write_safetensors(folder / models::kAdapterWeights, sources);
}

}  // namespace

void expect_finite(std::span<const SavedTensor> tensors, const std::filesystem::path& folder) {
  for (const SavedTensor& each : tensors)
    if (!all_finite(each.values))
      throw runtime_error("[{}] nothing is saved: {} has values that are not finite",
                          folder.string(), each.name);
}

SavedForm::SavedForm(const Trainer& trainer)
    : config(saved_config(trainer)),
      options(trainer.options()),
      has_adapters(trainer.graphs().has_adapters) {}

void write_config(const SavedForm& form,
                  const models::TokenizerFile* tokenizer,
                  const std::filesystem::path& folder) {
  const text::TokenizerSpec* spec = tokenizer == nullptr ? nullptr : &tokenizer->spec;
  files::write_file(folder / "config.json", models::config_json(form.config, DType::kF32, spec));
}

void write_tokenizer(const models::TokenizerFile* tokenizer, const std::filesystem::path& folder) {
  if (tokenizer == nullptr) return;
  for (const auto& [name, text] :
       models::tokenizer_files(tokenizer->spec, tokenizer->chat_template))
    files::write_file(folder / name, text);
}

void write_weights(const SavedForm& form,
                   std::span<const SavedTensor> weights,
                   const models::TokenizerFile* tokenizer,
                   const std::filesystem::path& folder) {
  write_tokenizer(tokenizer, folder);
  if (form.has_adapters)
    write_adapter(form.options, weights, folder);
  else
    files::write_safetensors(folder / "model.safetensors", sources_of(weights));
}

void save_model(const Trainer& trainer,
                const std::filesystem::path& folder,
                const models::TokenizerFile* tokenizer,
                files::AtomicFolder::Existing existing) {
  const std::vector<SavedTensor> weights = saved_tensors(trainer);
  if (!trainer.options().shard.is_first()) return;
  expect_finite(weights, folder);
  files::AtomicFolder made(folder, existing);
  const SavedForm form(trainer);
  // With a config.json, an adapter's folder would be taken for a model.
  if (!form.has_adapters) write_config(form, tokenizer, made.inside());
  write_weights(form, weights, tokenizer, made.inside());
  made.commit();
}

}  // namespace ridge::train
