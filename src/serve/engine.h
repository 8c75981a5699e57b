// SPDX-License-Identifier: Apache-2.0
// Serves many requests on one session by continuous batching: each step advances all sequences that
// have a slot, and a request gets a slot as soon as one and the blocks of its prompt are free. If
// the cache is full, or a request of better priority waits, the sequence of least priority that came last
// waits again and is computed again.
// A thread of its own owns the session; others speak to it through a mailbox and hear from it through
// outboxes. Knows no HTTP.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "serve/accounting.h"
#include "serve/activity.h"
#include "serve/engine_counts.h"
#include "serve/request.h"
#include "serve/session.h"
#include "serve/step_budget.h"
#include "text/tokenizer.h"

namespace ridge::serve {

struct EngineOptions {
  int64_t step_tokens = 128;  // tokens of a step in which a sequence decodes (StepLimits)
  double step_ms = 0;         // and the longest time that such a step is predicted to take; 0: any
  int64_t queue = 64;         // requests that wait for a slot
  // What predictions and utilizations refer to; null: there are none, and no step_ms.
  std::shared_ptr<const cost::Ceilings> ceilings = nullptr;
};
// Throws usage Errors for options out of range.
void validate(const EngineOptions& options);

enum class Refusal : uint8_t { kNone, kFull, kDraining };
struct Ticket {
  uint64_t id = 0;
  Refusal refusal = Refusal::kNone;  // if not kNone, nothing comes to the outbox
};

class Engine {
 public:
  // Session and tokenizer must outlive it, and nobody else uses the session meanwhile. Loads the
  // weights and runs one token before it returns; throws what that throws.
  Engine(Session& session, const text::Tokenizer& tokenizer, const EngineOptions& options);
  // Ends what still runs as cancelled.
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // The calls below are for any thread and wait for no step.

  // Throws a usage Error for a request that cannot run, whatever the load.
  Ticket submit(Request request, std::shared_ptr<Outbox> outbox);
  // Ends a request before the next step. May come late or twice.
  void cancel(uint64_t id);
  // From now on requests are refused; those that were accepted go on.
  void drain();
  // Whether no request is running or waiting.
  bool is_idle() const;
  EngineCounts counts() const;
  // The last steps and requests.
  const Activity& activity() const { return activity_; }

  const EngineOptions& options() const { return options_; }
  const StepBudget& budget() const { return budget_; }
  const SessionOptions& session_options() const { return session_.options(); }
  // Ids below it can be prompts and answers; rows of the model after them have no token.
  int64_t vocabulary() const { return session_.config().sampled_vocabulary(); }
  const text::Tokenizer& tokenizer() const { return tokenizer_; }

 private:
  struct Sequence;

  void expect_runnable(const Request& request) const;
  void warm_up();
  void serve();
  bool take_mail();
  void drop(uint64_t id);
  template <typename List>
  static void insert(List& list, std::unique_ptr<Sequence> sequence);
  void admit();
  bool takes_slot(const Sequence& next);
  bool takes_blocks(const Sequence& next, int64_t slot);
  void give_slot(Sequence& sequence, int64_t slot);
  int64_t missing_blocks() const;
  void make_room();
  void preempt_last();
  int64_t reach() const;
  int64_t pending(const Sequence& sequence) const;
  void step();
  void account(const std::vector<Part>& parts,
               const std::vector<Sequence*>& sequences,
               StepActivity& step);
  void accept(Sequence& sequence, int32_t token);
  void fail(Sequence& sequence, const std::exception& error);
  void fail_running(const std::exception& error);
  void put(Sequence& sequence, Delta delta);
  void wake_readers();
  TokenScores scores(const Sequence& sequence, int32_t token) const;
  void end(Sequence& sequence, Finish finish, Delta delta);
  static Account finished_account(const Sequence& sequence);
  void count_load();

  Session& session_;
  const text::Tokenizer& tokenizer_;
  const EngineOptions options_;

  mutable std::mutex mutex_;  // guards the mailbox
  std::condition_variable mail_;
  std::vector<std::unique_ptr<Sequence>> submitted_;
  std::vector<uint64_t> cancelled_;
  uint64_t last_id_ = 0;
  int64_t queued_ = 0;  // submitted and not admitted
  int64_t open_ = 0;    // submitted and not ended
  bool drains_ = false, stops_ = false;

  mutable std::mutex counts_mutex_;
  EngineCounts counts_;
  Activity activity_;

  const StepBudget budget_;

  // The engine thread's own. Both lists are in order of priority, then of arrival.
  std::deque<std::unique_ptr<Sequence>> waiting_;
  std::vector<std::unique_ptr<Sequence>> running_;
  std::vector<int64_t> free_slots_;
  std::vector<std::shared_ptr<Outbox>> unread_;  // whose readers are to be woken
  Accounting accounting_;
  std::thread thread_;
};

}  // namespace ridge::serve
