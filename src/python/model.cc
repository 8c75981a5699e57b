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
#include "serve/shared_steps.h"
#include "serve/step_budget.h"

namespace ridge::python {
namespace {

constexpr int64_t kQueue = 1 << 16;  // prompts of one call
// The first rank tells the others that an engine begins, or that no other one will.
constexpr const char *kEngine = "engine", *kClosed = "closed";

// A model as all its ranks open it.
struct Opened {
  std::shared_ptr<PythonTokenizer> tokenizer;  // null: none
  std::unique_ptr<serve::OpenModel> model;
};
Opened opened_model(const LoadOptions& options) {
  Opened opened;
  serve::InferenceOptions inference = options.inference;
  serve::TextModelFile file = serve::open_text_model(inference);
  if (file.tokenizer)
    opened.tokenizer = std::make_shared<PythonTokenizer>(*std::move(file.tokenizer),
                                                         std::move(file.chat_template));
  const serve::SessionNeeds needs{.positions = serve::kServedContext,
                                  .least = 2,
                                  .slots = options.max_sequences,
                                  .prefix_caching = options.prefix_caching};
  inference = bench::with_attention(inference, file.file.config(), needs);
  opened.model = serve::open_model(std::move(file.file), inference, needs);
  return opened;
}

// The watch of ranks ends this process where one is gone.
void end_followers(runtime::Ranks& ranks) {
  try {
    ranks.all().gather(kClosed);
  } catch (const Error&) {
  }
}

ModelFacts facts_of(const serve::OpenModel& open) {
  return {open.session->config(), open.session->options().capacity, omp_get_max_threads(),
          std::string(open.backend->name())};
}

std::shared_ptr<const cost::Ceilings> ceilings_of(const LoadOptions& options,
                                                  const serve::OpenModel& open) {
  auto known = measure::known_ceilings(backends::is_gpu(options.inference.machine),
                                       open.session->options().selection.has("tf32"),
                                       [](const std::string&) {});
  return known ? std::make_shared<const cost::Ceilings>(*std::move(known)) : nullptr;
}

}  // namespace

Model::Model(LoadOptions options, SharedRanks ranks)
    : options_(std::move(options)), ranks_(std::move(ranks)) {
  Opened opened = opened_model(options_);
  tokenizer_ = std::move(opened.tokenizer);
  open_ = std::move(opened.model);
  facts_ = facts_of(*open_);
  ceilings_ = ceilings_of(options_, *open_);
  if (ranks_ != nullptr) engine_ = make_engine(engine_options());
}

void follow(LoadOptions options, runtime::Ranks& ranks) {
  const Opened opened = opened_model(options);
  serve::Session& session = *opened.model->session;
  // The first engine warms the session up.
  for (bool is_warm = false; ranks.all().gather("")[0] == kEngine; is_warm = true) {
    if (!is_warm) serve::warm_up(session, [](const serve::Bucket&, int64_t, int64_t) {});
    serve::follow_steps(session.runner(), ranks.all());
  }
}

void Model::close() {
  if (!process_.is_this()) {  // there is no thread that could be joined, nor a GPU's context
    static_cast<void>(engine_.release());
    static_cast<void>(open_.release());
    static_cast<void>(new SharedRanks(std::move(ranks_)));
    return;
  }
  is_closing_ = true;
  const std::unique_lock alone(use_mutex_);
  const std::lock_guard lock(mutex_);
  engine_.reset();
  if (ranks_ != nullptr) end_followers(*ranks_);
  if (open_ != nullptr) sequences_.close_all(*open_->session);
  open_.reset();
  ranks_.reset();
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
  if (engine_ == nullptr) engine_ = make_engine(engine_options());
  return *engine_;
}

// Other ranks take part in its steps.
std::unique_ptr<serve::Engine> Model::make_engine(serve::EngineOptions options) {
  const text::Tokenizer& text = tokenizer()->tokenizer;
  if (ranks_ != nullptr) {
    options.ranks = ranks_.get();
    options.is_warm = std::exchange(is_warm_, true);
    ranks_->all().gather(kEngine);
  }
  return std::make_unique<serve::Engine>(*open_->session, text, options);
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
  engine_ = make_engine(options);
  has_own_options_ = true;
}

void Model::stop_engine() {
  if (!process_.is_this()) return;
  const std::unique_lock alone(use_mutex_);
  const std::lock_guard lock(mutex_);
  if (!has_own_options_) return;
  engine_.reset();
  has_own_options_ = false;
  if (ranks_ != nullptr) engine_ = make_engine(engine_options());
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
