// SPDX-License-Identifier: Apache-2.0
// Carries requests, cancellations and uses of the session from any thread to the engine's thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "serve/answer_text.h"
#include "serve/event_log.h"
#include "serve/request.h"

namespace ridge::serve {

// A request in the engine, from its arrival to its end.
struct EngineSequence {
  EngineSequence(Request asked, const text::Tokenizer& tokenizer)
      : request(std::move(asked)),
        ids(request.prompt),
        text(tokenizer, request.stop, request.ignores_end) {}

  int64_t generated() const { return std::ssize(ids) - std::ssize(request.prompt); }

  uint64_t id = 0;  // The mailbox numbers requests from 1.
  Request request;
  std::vector<int32_t> ids;  // the prompt and the generated ids
  AnswerText text;
  std::shared_ptr<OutputQueue> output;
  int64_t slot = -1;
  int64_t log_index = -1;  // its place in the event log
  double due_ns = 0;       // Requests run in this order: when it came, and later by its priority.
  bool was_admitted = false;
  bool has_ended = false;
  bool runs_alone = false;  // since a step that it shared threw, until its next token
  int64_t cached_tokens = 0;
  double submitted_ns = 0, admitted_ns = 0, first_ns = 0, last_ns = 0;
  RequestMetrics metrics;
};

class Mailbox {
 public:
  struct Mail {
    std::vector<std::unique_ptr<EngineSequence>> submitted;
    std::vector<uint64_t> cancelled;
    std::vector<std::packaged_task<void()>> uses;  // each uses the session
  };

  // At most `most_open` requests may wait or run. The log must outlive the mailbox.
  Mailbox(int64_t most_open, EventLog& log) : most_open_(most_open), log_(log) {}

  RequestHandle submit(std::unique_ptr<EngineSequence> sequence) {
    const std::lock_guard lock(mutex_);
    if (drains_) return {0, Refusal::kDraining};
    if (open_ >= most_open_) return {0, Refusal::kFull};
    mail_.submitted.emplace_back();  // may throw, and nothing is counted yet
    ++queued_, ++open_;
    const uint64_t id = sequence->id = ++last_id_;
    sequence->log_index =
        log_.submit(id, std::ssize(sequence->request.prompt), sequence->submitted_ns);
    mail_.submitted.back() = std::move(sequence);
    has_mail_.notify_one();
    return {id};
  }
  // Destructors call it: a request that it cannot note for lack of memory runs to its end.
  void cancel(uint64_t id) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      mail_.cancelled.push_back(id);
    } catch (const std::bad_alloc&) {
      return;
    }
    has_mail_.notify_one();
  }
  // The future of a use that nobody takes any more has a broken promise.
  std::future<void> use(std::packaged_task<void()> use) {
    const std::lock_guard lock(mutex_);
    std::future<void> done = use.get_future();
    if (stops_) return done;
    mail_.uses.push_back(std::move(use));
    has_mail_.notify_one();
    return done;
  }
  // Refuses requests from now on, and tells the engine's thread to stop if `stops`.
  void close(bool stops) {
    const std::lock_guard lock(mutex_);
    drains_ = true;
    stops_ = stops_ || stops;
    has_mail_.notify_one();
  }
  // Takes what has come, and waits for it, for `wait` at most, unless the engine is busy. Returns
  // whether to go on.
  bool take(bool is_busy, std::chrono::milliseconds wait, Mail& mail) {
    std::unique_lock lock(mutex_);
    has_mail_.wait_for(lock, wait, [&] {
      return is_busy || stops_ || !mail_.submitted.empty() || !mail_.cancelled.empty() ||
             !mail_.uses.empty();
    });
    mail = std::exchange(mail_, {});
    return !stops_;
  }
  void count_admitted() {
    const std::lock_guard lock(mutex_);
    --queued_;
  }
  void count_ended(bool was_admitted) {
    const std::lock_guard lock(mutex_);
    if (!was_admitted) --queued_;
    --open_;
  }
  // Requests submitted and not admitted, and those submitted and not ended.
  std::pair<int64_t, int64_t> queued_and_open() const {
    const std::lock_guard lock(mutex_);
    return {queued_, open_};
  }

 private:
  const int64_t most_open_;
  EventLog& log_;
  mutable std::mutex mutex_;
  std::condition_variable has_mail_;
  Mail mail_;
  uint64_t last_id_ = 0;
  int64_t queued_ = 0, open_ = 0;
  bool drains_ = false, stops_ = false;
};

}  // namespace ridge::serve
