// SPDX-License-Identifier: Apache-2.0
// A model that Python has loaded: its session, and the engine that answers on it. Threads may share
// it. Knows no Python beyond what it is asked with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "cost/ceilings.h"
#include "python/errors.h"
#include "python/tokenizer.h"
#include "serve/engine.h"
#include "serve/session_choice.h"

namespace ridge::python {

struct LoadOptions {
  serve::InferenceOptions inference;
  int64_t max_sequences = 1;
  bool prefix_caching = false;
};

class Model {
 public:
  // Throws as serve::open_model does.
  explicit Model(LoadOptions options);
  // Ends what still runs. The GIL must not be held, for these may wait for the engine.
  ~Model() { close(); }
  void close();

  // All below throw a usage Error once it is closed.

  // Gives a request to the engine, which starts with the first one.
  serve::RequestHandle submit(serve::Request request, std::shared_ptr<serve::OutputQueue> output);
  void cancel(uint64_t id);
  // Calls `use` with the session, which the engine leaves. Throws a usage Error while answers are
  // being generated.
  void with_session(const std::function<void(serve::Session&)>& use);

  // Throws a bad-file Error if the model has none.
  const std::shared_ptr<PythonTokenizer>& tokenizer() const;
  bool has_ceilings() const { return ceilings_ != nullptr; }
  const LoadOptions& options() const { return options_; }
  const models::ModelConfig& config() const { return config_; }
  int64_t context() const { return context_; }
  std::string device() const { return device_; }

 private:
  void expect_open() const;
  serve::Engine& engine();

  const LoadOptions options_;
  const OwnProcess process_;
  std::shared_ptr<PythonTokenizer> tokenizer_;  // null: none
  std::shared_ptr<const cost::Ceilings> ceilings_;
  models::ModelConfig config_;
  int64_t context_ = 0;
  std::string device_;
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<serve::OpenModel> open_;
  std::unique_ptr<serve::Engine> engine_;
};

}  // namespace ridge::python
