// SPDX-License-Identifier: Apache-2.0
// A model that Python has loaded: its session, and the engine that answers on it. Threads may share
// it. Knows no Python beyond what it is asked with.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <string>

#include "cost/ceilings.h"
#include "python/errors.h"
#include "python/ranks.h"
#include "python/tokenizer.h"
#include "serve/engine.h"
#include "serve/kept_sequence.h"
#include "serve/session_choice.h"

namespace ridge::python {

struct LoadOptions {
  serve::InferenceOptions inference;
  int64_t max_sequences = 1;
  bool prefix_caching = false;
};

// A closed model has them, too.
struct ModelFacts {
  models::ModelConfig config = {};
  int64_t context = 0;
  int threads = 0;  // OpenMP's, of the thread that opened it
  std::string device = {};
};

// A rank after the first, which has the Model: runs its steps until it is closed.
void follow(LoadOptions options, runtime::Ranks& ranks);

class Model {
 public:
  // `ranks`, which share the model, or null. Throws as serve::open_model does.
  Model(LoadOptions options, SharedRanks ranks);
  // Ends what still runs. The GIL must not be held, for these may wait for the engine.
  ~Model() { close(); }
  void close();

  // All below throw a usage Error once it is closed.

  // Gives a request to the engine, which starts with the first one.
  serve::RequestHandle submit(serve::Request request, std::shared_ptr<serve::OutputQueue> output);
  void cancel(uint64_t id);
  // Calls `use` with the session, on the engine's thread between two steps if there is an engine.
  // `use` calls `pause` now and then, which throws after Ctrl-C or `close`. The GIL must not be
  // held.
  using Pause = std::function<void()>;
  using Use = std::function<void(serve::Session& session, const Pause& pause)>;
  void with_session(const Use& use);
  // Starts the engine with other options than those of a model. Throws a usage Error while answers
  // are being generated, and if this was called before.
  void start_engine(serve::EngineOptions options);
  // Ends that engine and what it runs. The next request starts one with a model's options.
  void stop_engine();
  serve::EngineCounts counts();
  void drain();

  // Calls `use` with the sequences that Python feeds, forks and shortens too.
  using UseSequences = std::function<
      void(serve::KeptSequences& sequences, serve::Session& session, const Pause& pause)>;
  void with_sequences(const UseSequences& use) {
    with_session(
        [&](serve::Session& session, const Pause& pause) { use(sequences_, session, pause); });
  }
  bool is_closed() const { return is_closing_ || !process_.is_this(); }

  // Throws a bad-file Error if the model has none.
  const std::shared_ptr<PythonTokenizer>& tokenizer() const;
  bool has_ceilings() const { return ceilings_ != nullptr; }
  const LoadOptions& options() const { return options_; }
  const models::ModelConfig& config() const { return facts_.config; }
  int64_t context() const { return facts_.context; }
  std::string device() const { return facts_.device; }

 private:
  void expect_open() const;
  serve::EngineOptions engine_options() const;
  std::unique_ptr<serve::Engine> make_engine(serve::EngineOptions options);
  serve::Engine& engine();
  void use_on_engine(serve::Engine& engine, const Use& use);

  const LoadOptions options_;
  const OwnProcess process_;
  std::shared_ptr<PythonTokenizer> tokenizer_;  // null: none
  std::shared_ptr<const cost::Ceilings> ceilings_;
  ModelFacts facts_;
  // Whoever uses the session shares it; `close` and `stop_engine` have it alone.
  std::shared_mutex use_mutex_;
  std::atomic<bool> is_closing_ = false;
  std::mutex mutex_;      // guards what follows
  SharedRanks ranks_;     // null: there is one. Several have an engine from the beginning.
  bool is_warm_ = false;  // an engine has run with them
  std::unique_ptr<serve::OpenModel> open_;
  std::unique_ptr<serve::Engine> engine_;
  bool has_own_options_ = false;    // start_engine was called
  serve::KeptSequences sequences_;  // Whoever has the session has these.
};

}  // namespace ridge::python
