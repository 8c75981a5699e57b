// SPDX-License-Identifier: Apache-2.0
// Opens a model as ridge serve does, without a server.
#include "python/model.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "bench/attention_choice.h"
#include "measure/machine_ceilings.h"
#include "models/tokenizer_file.h"
#include "serve/step_budget.h"

namespace ridge::python {
namespace {

constexpr int64_t kContext = 2048;   // positions; a full context may take gigabytes
constexpr int64_t kGpuChunk = 2048;  // tokens of a prompt in one step
constexpr int64_t kQueue = 1 << 16;  // prompts of one call

}  // namespace

Model::Model(LoadOptions options) : options_(std::move(options)) {
  serve::InferenceOptions inference = options_.inference;
  models::ModelFile file = serve::open_model_file(inference);
  if (std::optional<models::TokenizerFile> found = models::find_tokenizer(file)) {
    std::string chat = found->chat_template;
    tokenizer_ = std::make_shared<PythonTokenizer>(models::make_tokenizer(*std::move(found), file),
                                                   std::move(chat));
    file.limit_tokens(tokenizer_->tokenizer.vocab_size());
  }
  const bool on_gpu = backends::is_gpu(inference.machine);
  if (on_gpu) inference.chunk = std::max(inference.chunk, kGpuChunk);
  const serve::SessionNeeds needs{.positions = kContext,
                                  .least = 2,
                                  .slots = options_.max_sequences,
                                  .prefix_caching = options_.prefix_caching};
  inference = bench::with_attention(inference, file.config(), needs);
  open_ = serve::open_model(std::move(file), inference, needs);
  const serve::Session& session = *open_->session;
  config_ = session.config();
  context_ = session.options().capacity;
  device_ = open_->backend->name();
  if (auto known = measure::known_ceilings(on_gpu, session.options().selection.has("tf32"),
                                           [](const std::string&) {}))
    ceilings_ = std::make_shared<const cost::Ceilings>(*std::move(known));
}

void Model::close() {
  if (!process_.is_this()) {  // there is no thread that could be joined, nor a GPU's context
    static_cast<void>(engine_.release());
    static_cast<void>(open_.release());
    return;
  }
  const std::lock_guard lock(mutex_);
  engine_.reset();
  open_.reset();
}

void Model::expect_open() const {
  process_.expect();
  if (open_ == nullptr) throw usage_error("[model] expected an open model, this one was closed");
}

serve::Engine& Model::engine() {
  expect_open();
  if (engine_ == nullptr) {
    serve::EngineOptions options;
    options.queue = kQueue;
    options.ceilings = ceilings_;
    options.max_batched_tokens = serve::suitable_step_tokens(*open_->session, ceilings_.get());
    engine_ = std::make_unique<serve::Engine>(*open_->session, tokenizer()->tokenizer, options);
  }
  return *engine_;
}

serve::RequestHandle Model::submit(serve::Request request,
                                   std::shared_ptr<serve::OutputQueue> output) {
  const std::lock_guard lock(mutex_);
  return engine().submit(std::move(request), std::move(output));
}

void Model::cancel(uint64_t id) {
  const std::lock_guard lock(mutex_);
  if (engine_ != nullptr) engine_->cancel(id);
}

void Model::with_session(const std::function<void(serve::Session&)>& use) {
  const std::lock_guard lock(mutex_);
  expect_open();
  if (engine_ != nullptr && !engine_->is_idle())
    throw usage_error("[model] expected no answer under way: finish or close the open stream");
  engine_.reset();
  use(*open_->session);
}

const std::shared_ptr<PythonTokenizer>& Model::tokenizer() const {
  if (tokenizer_ == nullptr)
    throw file_error("[tokenizer] expected a model with a tokenizer, this one has none");
  return tokenizer_;
}

}  // namespace ridge::python
