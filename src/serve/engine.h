// SPDX-License-Identifier: Apache-2.0
// Serves many requests on one session by continuous batching. Each step advances the sequences that
// have a slot. A request gets a slot as soon as a slot and the blocks of its prompt are free. For
// one of a better priority, or if the cache is full, the engine preempts the last sequences and
// recomputes them later. The engine's thread owns the session. Knows no HTTP.
//
// Whatever throws ends one request, and the others go on. If several share what threw, they begin
// again, each alone until its next token, so that the one at fault is found.
#pragma once

#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "serve/accounting.h"
#include "serve/engine_counts.h"
#include "serve/event_log.h"
#include "serve/mailbox.h"
#include "serve/session.h"
#include "serve/step_launcher.h"
#include "text/tokenizer.h"

namespace ridge::serve {

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
  // Whether the next step starts before the tokens of a step are known, where all sequences go on
  // by a token. None: on a device of its own.
  std::optional<bool> runs_ahead = std::nullopt;
};
// Throws usage Errors for options out of range.
void validate(const EngineOptions& options);

class Engine {
 public:
  // Called with the number of buckets that are built and of all.
  using Progress = std::function<void(int64_t built, int64_t all)>;
  // The session and the tokenizer must outlive the engine, and nobody else may use the session. The
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
  // Refuses requests from now on. Accepted ones go on.
  void drain() { mailbox_.close(false); }
  // Whether no request is running or waiting.
  bool is_idle() const { return mailbox_.queued_and_open().second == 0; }
  EngineCounts counts() const;
  // The log of the last steps and requests.
  const EventLog& event_log() const { return event_log_; }

  const EngineOptions& options() const { return options_; }
  const StepBudget& budget() const { return launcher_.budget(); }
  const SessionOptions& session_options() const { return session_.options(); }
  // Prompts and answers have ids below this number. The model may have padded rows after them.
  int64_t vocabulary() const { return session_.config().sampled_vocabulary(); }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  void expect_runnable(const Request& request) const;
  void warm_up(const Progress& progress);
  void serve();
  bool take_mail();
  void drop(uint64_t id);
  template <typename List>
  static void insert(List& list, std::unique_ptr<EngineSequence>& sequence);
  void admit();
  bool admit(EngineSequence& next);
  static bool yields(const EngineSequence& running, const EngineSequence& next);
  bool takes_blocks(const EngineSequence& next);
  void count_admitted(EngineSequence& sequence);
  void make_room();
  void preempt_last();
  void requeue_last();
  void step();
  LaunchedStep launch();
  void finish(LaunchedStep step);
  void land();
  void log_step(const LoggedStep& step);
  void isolate(const std::exception& error);
  void count_costs(const LaunchedStep& step, LoggedStep& logged);
  void accept(EngineSequence& sequence, int32_t token);
  void fail(EngineSequence& sequence, const std::exception& error);
  void count_internal_error();
  void put(EngineSequence& sequence, Delta delta);
  void wake_readers();
  void end(EngineSequence& sequence, Finish finish, Delta delta);
  Delta last_delta(EngineSequence& sequence, Delta delta, double now) const;
  void count_end(const EngineSequence& sequence, Finish finish, double now);
  int64_t count_running();
  void count_load();

  Session& session_;
  const text::Tokenizer& tokenizer_;
  const EngineOptions options_;

  mutable std::mutex counts_mutex_;
  EngineCounts counts_;
  EventLog event_log_;
  Mailbox mailbox_;
  StepLauncher launcher_;

  // Only the engine's thread uses these. Both lists are sorted by the time at which they are due.
  std::deque<std::unique_ptr<EngineSequence>> waiting_;
  std::vector<std::unique_ptr<EngineSequence>> running_;
  std::vector<int64_t> free_slots_;
  std::vector<std::shared_ptr<OutputQueue>> unread_;  // queues whose readers must be woken
  Accounting accounting_;
  std::thread thread_;
};

}  // namespace ridge::serve
