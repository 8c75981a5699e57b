// SPDX-License-Identifier: Apache-2.0
// Opens a model as ridge serve does, without a server.
#include "python/model.h"

#include <omp.h>

#include <chrono>
#include <future>
#include <utility>

#include "base/error.h"
#include "base/openmp_threads.h"
#include "bench/attention_choice.h"
#include "measure/machine_ceilings.h"
#include "serve/step_budget.h"

namespace ridge::python {
namespace {

constexpr int64_t kQueue = 1 << 16;  // prompts of one call

}  // namespace

Model::Model(LoadOptions options) : options_(std::move(options)) {
  serve::InferenceOptions inference = options_.inference;
  serve::TextModelFile opened = serve::open_text_model(inference);
  if (opened.tokenizer)
    tokenizer_ = std::make_shared<PythonTokenizer>(*std::move(opened.tokenizer),
                                                   std::move(opened.chat_template));
  inference.chunk = serve::served_chunk(inference);
  const serve::SessionNeeds needs{.positions = serve::kServedContext,
                                  .least = 2,
                                  .slots = options_.max_sequences,
                                  .prefix_caching = options_.prefix_caching};
  inference = bench::with_attention(inference, opened.file.config(), needs);
  open_ = serve::open_model(std::move(opened.file), inference, needs);
  const serve::Session& session = *open_->session;
  facts_.config = session.config();
  facts_.context = session.options().capacity;
  facts_.threads = omp_get_max_threads();
  facts_.device = open_->backend->name();
  const bool on_gpu = backends::is_gpu(inference.machine);
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
  is_closing_ = true;
  const std::unique_lock alone(use_mutex_);
  const std::lock_guard lock(mutex_);
  engine_.reset();
  if (open_ != nullptr) sequences_.close_all(*open_->session);
  open_.reset();
}

void Model::expect_open() const {
  process_.expect();
  if (is_closing_ || open_ == nullptr)
    throw usage_error("[model] expected an open model, this one was closed");
}

serve::EngineOptions Model::engine_options() const {
  serve::EngineOptions options;
  options.queue = kQueue;
  options.ceilings = ceilings_;
  options.threads = facts_.threads;
  options.max_batched_tokens = serve::suitable_step_tokens(*open_->session, ceilings_.get());
  return options;
}

serve::Engine& Model::engine() {
  expect_open();
  if (engine_ == nullptr)
    engine_ =
        std::make_unique<serve::Engine>(*open_->session, tokenizer()->tokenizer, engine_options());
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

void Model::start_engine(serve::EngineOptions options) {
  const std::unique_lock alone(use_mutex_);
  const std::lock_guard lock(mutex_);
  expect_open();
  if (has_own_options_)
    throw usage_error("[engine] expected a model without an engine, it has one: close that first");
  if (engine_ != nullptr && !engine_->is_idle())
    throw usage_error("[engine] expected no answer under way: finish or close the open stream");
  const serve::EngineOptions usual = engine_options();
  options.ceilings = usual.ceilings;
  options.threads = usual.threads;
  if (options.max_batched_tokens == 0) options.max_batched_tokens = usual.max_batched_tokens;
  serve::validate(options);
  engine_.reset();
  engine_ = std::make_unique<serve::Engine>(*open_->session, tokenizer()->tokenizer, options);
  has_own_options_ = true;
}

void Model::stop_engine() {
  if (!process_.is_this()) return;
  const std::unique_lock alone(use_mutex_);
  const std::lock_guard lock(mutex_);
  if (!has_own_options_) return;
  engine_.reset();
  has_own_options_ = false;
}

serve::EngineCounts Model::counts() {
  const std::lock_guard lock(mutex_);
  return engine().counts();
}

void Model::drain() {
  const std::lock_guard lock(mutex_);
  engine().drain();
}

void Model::with_session(const Use& use) {
  const std::shared_lock shared(use_mutex_);
  std::unique_lock lock(mutex_);
  expect_open();
  const auto pause = [this] {
    throw_if_interrupted();
    expect_open();
  };
  if (engine_ == nullptr) {
    const OpenmpThreads team(facts_.threads);
    return use(*open_->session, pause);
  }
  serve::Engine& engine = *engine_;  // it stays as long as the lock is shared
  lock.unlock();
  use_on_engine(engine, use);
}

// Waits for the engine's thread, and looks for Ctrl-C meanwhile.
void Model::use_on_engine(serve::Engine& engine, const Use& use) {
  constexpr auto kLook = std::chrono::milliseconds(50);  // the longest that Ctrl-C waits
  std::atomic<bool> is_interrupted = false;
  std::future<void> done = engine.use([&](serve::Session& session) {
    use(session, [&] {
      expect_open();
      if (is_interrupted) throw runtime_error("[model] the call was interrupted");
    });
  });
  Interrupts interrupts;
  while (done.wait_for(kLook) == std::future_status::timeout)
    if (interrupts.is_set()) is_interrupted = true;
  interrupts.rethrow();
  done.get();
}

const std::shared_ptr<PythonTokenizer>& Model::tokenizer() const {
  if (tokenizer_ == nullptr)
    throw file_error("[tokenizer] expected a model with a tokenizer, this one has none");
  return tokenizer_;
}

}  // namespace ridge::python
