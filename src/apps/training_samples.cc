// SPDX-License-Identifier: Apache-2.0
// Hands the trainer's weights to a session of their own, on a backend of its own. Not a subcommand.
#include "apps/training_samples.h"

#include <algorithm>
#include <utility>

#include "apps/inference_options.h"
#include "base/error.h"
#include "models/model_file.h"
#include "serve/generator.h"
#include "train/saved_state.h"

namespace ridge::apps {
namespace {

constexpr int64_t kMostTokens = 65536;

text::Tokenizer known(const models::TokenizerFile* tokenizer) {
  if (tokenizer == nullptr)
    throw usage_error(
        "[sample-every] expected data or a model with a tokenizer; --tokenizer names one");
  return models::make_tokenizer(*tokenizer);
}

// The process has chosen its threads and its instruction set already.
MachineOptions as_chosen(const MachineOptions& machine) {
  MachineOptions same;
  same.device = machine.device;
  return same;
}

}  // namespace

void add_sample_options(Command app, SampleOptions& o) {
  app = app.under("Samples");
  app.add_option(
         "--sample-every", o.every,
         "generate a text every so many steps and after the last one, with --data (0: never); "
         "--log-dir keeps them in samples.jsonl")
      .show_default();
  app.add_option("--sample-prompt", o.prompt,
                 "what the texts continue (default: the tokenizer's begin, or the end of a line)");
  app.add_option("--sample-tokens", o.tokens, "tokens of a text").show_default();
  app.add_option("--sample-temperature", o.sampling.temperature, "softmax temperature (0: greedy)")
      .show_default();
}

void check(const SampleOptions& o) {
  if (o.every < 0) throw usage_error("[sample-every] expected at least 0, got {}", o.every);
  if (o.tokens < 1 || o.tokens > kMostTokens)
    throw usage_error("[sample-tokens] expected 1 to {}, got {}", kMostTokens, o.tokens);
  serve::validate(o.sampling);
}

Mode without_samples(const SampleOptions& o) {
  return {!o.are_on(),
          "without --sample-every",
          {"--sample-prompt", "--sample-tokens", "--sample-temperature"}};
}

TrainingSamples::TrainingSamples(const SampleOptions& options,
                                 const MachineOptions& machine,
                                 const models::TokenizerFile* tokenizer,
                                 const models::ModelConfig& config)
    : o_(options),
      tokenizer_(known(tokenizer)),
      prompt_(tokenizer_.encode(o_.prompt, {.add_bos = tokenizer_.spec().add_bos})),
      selection_(serve::inference_selection({.on_gpu = chosen_device(machine) == "cuda"},
                                            LevelOptions().level,
                                            "")),
      backend_(make_backend(as_chosen(machine), selection_)) {
  if (prompt_.empty()) prompt_ = tokenizer_.encode("\n");
  if (std::ssize(prompt_) >= config.context)
    throw usage_error("[sample-prompt] expected less than {} tokens, the context, got {}",
                      config.context, prompt_.size());
}

TrainingSamples::~TrainingSamples() = default;

// A text that cannot be made, for example of weights that are not finite, is no reason to stop the
// training.
TrainingSamples::Sample TrainingSamples::sample(const train::Trainer& trainer, int64_t step) {
  Sample made{step, {}, {}, {}, {}};
  const std::vector<train::SavedTensor> weights = train::whole_model(trainer);
  files::TensorTable table("the weights in training");
  for (const train::SavedTensor& each : weights)
    table.add(
        {each.name, DType::kF32, each.shape, std::as_bytes(std::span<const float>(each.values))});
  const models::ModelConfig config = train::saved_config(trainer);
  models::ModelFile model = models::ModelFile::of_tensors(config, std::move(table));
  model.limit_tokens(tokenizer_.vocab_size());
  try {
    serve::SessionOptions session_options;
    session_options.capacity = std::min<int64_t>(config.context, std::ssize(prompt_) + o_.tokens);
    session_options.selection = selection_;
    serve::Session session(model, session_options, *backend_);
    serve::GenerateOptions options;
    options.sampling = o_.sampling;
    options.max_tokens = o_.tokens;
    serve::Generation text = serve::generate(session, tokenizer_, prompt_, options, {});
    made.text = std::move(text.text);
    made.ids = std::move(text.ids);
    made.finish_reason = std::move(text.finish_reason);
  } catch (const Error& error) {
    made.fault = error.what();
  }
  return made;
}

}  // namespace ridge::apps
