// SPDX-License-Identifier: Apache-2.0
// Serves many requests on one session by continuous batching. Each step advances the sequences that
// have a slot. A request gets a slot as soon as a slot and the blocks of its prompt are free. For
// one of a better priority, or if the cache is full, the engine preempts the last sequences and
// recomputes them later. The engine's thread owns the session. Knows no HTTP.
#pragma once

#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>

#include "serve/engine_core.h"
#include "serve/engine_metrics.h"
#include "serve/mailbox.h"
#include "serve/session.h"
#include "text/tokenizer.h"

namespace ridge::runtime {
class Ranks;
}

namespace ridge::serve {
class StepLeader;

struct EngineOptions {
  int64_t max_batched_tokens = 128;  // limit of a step in which a sequence decodes
  double step_ms = 0;                // longest predicted time of such a step; 0: no limit
  int64_t queue = 64;                // most requests beyond those that have slots
  int64_t most_priority = 10;        // Requests have priorities from -most_priority to this.
  // A request is served as if it had come so much earlier for each step to a smaller priority. So
  // whoever has waited longer than that comes before it, and nobody is kept waiting for ever.
  double priority_ms = 100;
  // Predictions and utilizations refer to these. If null, there are none, and step_ms must be 0.
  std::shared_ptr<const cost::Ceilings> ceilings = nullptr;
  // OpenMP's threads of the engine's thread; 0: as many as the thread has that makes the engine.
  int threads = 0;
  // Whether the next step starts before the tokens of a step are known, where all sequences go on
  // by a token. None: on a device of its own.
  std::optional<bool> runs_ahead = std::nullopt;
  // The ranks that share the model, or null. Only the first has an engine; the others warm_up and
  // follow_steps.
  runtime::Ranks* ranks = nullptr;
  bool is_warm = false;  // whether an engine has warmed the session up before
};
// Throws usage Errors for options out of range.
void validate(const EngineOptions& options);

// Loads the weights and runs one token; on a device of its own also builds and records the buckets
// of all steps, and calls `prepared` after each.
void warm_up(Session& session, const ModelRunner::Prepared& prepared);

class Engine {
 public:
  // Called with the number of buckets that are built and of all.
  using Progress = std::function<void(int64_t built, int64_t all)>;
  // The session and the tokenizer must outlive the engine, and others use the session by `use`. The
  // constructor loads the weights and runs one token; on a device of its own it builds the buckets
  // of all steps, so that no request waits for one. It throws what these throw.
  Engine(Session& session,
         const text::Tokenizer& tokenizer,
         const EngineOptions& options,
         const Progress& progress = {});
  // Cancels the requests that still run.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Any thread may call the functions below. They do not wait for a step.

  // Queues a request. Throws a usage Error for one that could never run.
  RequestHandle submit(Request request, std::shared_ptr<OutputQueue> output);
  // Ends a request before the next step. It does nothing if the request has ended.
  void cancel(uint64_t id) { mailbox_.cancel(id); }
  // Calls `use` with the session on the engine's thread, between two steps. It may run sequences
  // in slots that it takes from the session's free ones. The future has what `use` throws, or a
  // broken promise if the engine stops before; whoever gets it waits for it.
  [[nodiscard]] std::future<void> use(std::function<void(Session&)> use);
  // Refuses requests from now on. Accepted ones go on.
  void drain() { mailbox_.close(false); }
  // Whether no request is running or waiting.
  bool is_idle() const { return mailbox_.queued_and_open().second == 0; }
  EngineCounts counts() const;
  // The log of the last steps and requests.
  const EventLog& event_log() const { return metrics_.log(); }

  const EngineOptions& options() const { return options_; }
  const StepBudget& budget() const { return core_.budget(); }
  const SessionOptions& session_options() const { return session_.options(); }
  // Prompts and answers have ids below this number. The model may have padded rows after them.
  int64_t vocabulary() const { return session_.config().sampled_vocabulary(); }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  void expect_runnable(const Request& request) const;
  void serve();
  void run_steps(StepLeader* leader);
  bool take_mail();

  Session& session_;
  const text::Tokenizer& tokenizer_;
  const EngineOptions options_;
  EngineMetrics metrics_;
  Mailbox mailbox_;
  EngineCore core_;  // Only the engine's thread uses it.
  std::thread thread_;
};

}  // namespace ridge::serve
