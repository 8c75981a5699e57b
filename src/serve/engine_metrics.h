// SPDX-License-Identifier: Apache-2.0
// The counters, the log and the costs of an engine. Its thread notes what happens; any thread reads
// `counts` and `log`.
#pragma once

#include <memory>
#include <mutex>

#include "serve/accounting.h"
#include "serve/engine_counts.h"
#include "serve/event_log.h"
#include "serve/mailbox.h"
#include "serve/step_launcher.h"

namespace ridge::serve {

class EngineMetrics {
 public:
  EngineMetrics(const Session& session, std::shared_ptr<const cost::Ceilings> ceilings);

  // Without the waiting requests, which the mailbox counts.
  EngineCounts counts() const;
  const EventLog& log() const { return log_; }
  EventLog& log() { return log_; }
  // Counts and predicts the runs of a bucket ahead of its first one.
  void prepare(const Bucket& bucket) { accounting_.prepare(bucket); }

  void count_refused() { increment(&EngineCounts::refused); }
  void count_internal_error() { increment(&EngineCounts::internal_errors); }
  void count_preemption() { increment(&EngineCounts::preemptions); }
  // A sequence has got a slot, at its first time or again.
  void admitted(EngineSequence& sequence);
  // A sequence gave its slot back and waits again.
  void requeued(const EngineSequence& sequence);
  // A token was added to a sequence.
  void generated(EngineSequence& sequence);
  // Calls `put`, which hands the end of an answer to its reader and returns its reason, and counts
  // it before anybody can read the counts, so that the reader finds it counted.
  template <typename Put>
  void ended(const EngineSequence& sequence, int64_t running, double now, const Put& put) {
    Finish finish;
    {
      const std::lock_guard lock(mutex_);
      finish = put(counts_);
      count_end(sequence, finish, now);
      set_load(running);
    }
    log_.end(sequence.log_index, finish, now);
  }
  // Adds a step's cost to its requests and to the log's entry. The parts of those that ended before
  // it did are discarded.
  void add_cost(const LaunchedStep& step, LoggedStep& logged);
  void stepped(const LoggedStep& step);
  double last_step_ns() const { return 1e9 * counts_.last_step_s; }
  // Notes how many sequences run and which blocks they use.
  void count_load(int64_t running);

 private:
  void increment(int64_t EngineCounts::*counter);
  void set_load(int64_t running);
  void count_end(const EngineSequence& sequence, Finish finish, double now);

  const SequenceBlocks& blocks_;
  mutable std::mutex mutex_;
  EngineCounts counts_;
  EventLog log_;
  Accounting accounting_;
};

}  // namespace ridge::serve
