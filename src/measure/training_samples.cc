// SPDX-License-Identifier: Apache-2.0
// Hands the trainer's weights to a session of their own.
#include "measure/training_samples.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "models/model_file.h"
#include "serve/generator.h"
#include "train/saved_state.h"

namespace ridge::measure {
namespace {

constexpr int64_t kMostTokens = 65536;

text::Tokenizer known(const models::TokenizerFile* tokenizer) {
  if (tokenizer == nullptr)
    throw usage_error(
        "[sample-every] expected data or a model with a tokenizer; --tokenizer names one");
  return models::make_tokenizer(*tokenizer);
}

}  // namespace

void validate(const SampleOptions& o) {
  if (o.every < 0) throw usage_error("[sample-every] expected at least 0, got {}", o.every);
  if (o.tokens < 1 || o.tokens > kMostTokens)
    throw usage_error("[sample-tokens] expected 1 to {}, got {}", kMostTokens, o.tokens);
  serve::validate(o.sampling);
}

TrainingSamples::TrainingSamples(const SampleOptions& options,
                                 SampleMachine machine,
                                 const models::TokenizerFile* tokenizer,
                                 int64_t context)
    : o_(options),
      tokenizer_(known(tokenizer)),
      prompt_(tokenizer_.encode(o_.prompt, {.add_bos = tokenizer_.spec().add_bos})),
      machine_(std::move(machine)) {
  if (prompt_.empty()) prompt_ = tokenizer_.encode("\n");
  if (std::ssize(prompt_) >= context)
    throw usage_error("[sample-prompt] expected less than {} tokens, the context, got {}", context,
                      prompt_.size());
}

TrainingSamples::~TrainingSamples() = default;

void TrainingSamples::begin(const train::Trainer& trainer, int64_t first, Listener listener) {
  trainer_ = &trainer;
  first_ = first;
  listener_ = std::move(listener);
}

bool TrainingSamples::is_due(int64_t next) { return next > first_ && next % o_.every == 0; }

void TrainingSamples::work(int64_t steps) {
  if (sampled_ == steps) return;
  sampled_ = steps;
  listener_(generate(steps));
}

// A text that cannot be made, for example of weights that are not finite, is no reason to stop the
// training.
record::TrainingSample TrainingSamples::generate(int64_t steps) {
  record::TrainingSample made{steps, o_.prompt, {}, {}, {}, {}};
  const std::vector<train::SavedTensor> weights = train::whole_model(*trainer_);
  files::TensorTable table("the weights in training");
  for (const train::SavedTensor& each : weights)
    table.add(
        {each.name, DType::kF32, each.shape, std::as_bytes(std::span<const float>(each.values))});
  const models::ModelConfig config = train::saved_config(*trainer_);
  models::ModelFile model = models::ModelFile::of_tensors(config, std::move(table));
  model.limit_tokens(tokenizer_.vocab_size());
  try {
    serve::SessionOptions session_options;
    session_options.capacity = std::min<int64_t>(config.context, std::ssize(prompt_) + o_.tokens);
    session_options.selection = machine_.selection;
    serve::Session session(model, session_options, *machine_.backend);
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

}  // namespace ridge::measure
