// SPDX-License-Identifier: Apache-2.0
// The waiting and the running sequences of an engine. Gives them slots and blocks by priority, then
// arrival, and takes both back from the last ones where others need them; these are recomputed from
// their ids later.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "serve/engine_metrics.h"
#include "serve/mailbox.h"
#include "serve/session.h"

namespace ridge::serve {

class Scheduler {
 public:
  using Sequence = std::unique_ptr<EngineSequence>;

  Scheduler(Session& session, EngineMetrics& metrics);

  // Both are sorted by the time at which they are due. Sequences that run alone come before others.
  const std::deque<Sequence>& waiting() const { return waiting_; }
  const std::vector<Sequence>& running() const { return running_; }
  // Whether no sequence runs, and none that waits could.
  bool is_idle() const {
    return running_.empty() && (waiting_.empty() || session_.free_slots().is_empty());
  }
  // The number of running sequences that have not ended.
  int64_t running_count() const;

  // Lets a sequence wait. It stays with the caller if this throws.
  void add(Sequence& sequence) { insert(waiting_, sequence); }
  // Takes a sequence out; null if there is none.
  Sequence take(uint64_t id);
  Sequence take_first_waiting();
  Sequence take_last_running();
  // Admits the first waiting sequence. Returns false if it has to wait. If this throws, the
  // sequence is still the first that waits, and may have a slot.
  bool admit_first();
  // Preempts the last sequences until the others have blocks for their known ids.
  void make_room();
  // Puts the last running sequence back among those that wait. It still runs if this throws.
  void requeue_last();
  // Gives the slot of a sequence back if it has one. The cache keeps its blocks for prompts that
  // begin alike.
  void release(EngineSequence& sequence);
  // Takes out the running sequences that have no slot any more.
  void erase_ended();

 private:
  template <typename List>
  static void insert(List& list, Sequence& sequence);
  bool takes_blocks(const EngineSequence& next);
  int64_t missing(const EngineSequence& sequence) const;
  void preempt_last();

  Session& session_;
  EngineMetrics& metrics_;
  std::deque<Sequence> waiting_;
  std::vector<Sequence> running_;
};

}  // namespace ridge::serve
