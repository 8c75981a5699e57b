// SPDX-License-Identifier: Apache-2.0
// Moves sequences between the two lists.
#include "serve/scheduler.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "serve/schedule.h"

namespace ridge::serve {
namespace {

// Whether a running sequence may be preempted for a waiting one, which must have the better
// priority and be due earlier.
bool yields(const EngineSequence& running, const EngineSequence& next) {
  return running.request.priority > next.request.priority && running.due_ns > next.due_ns;
}

}  // namespace

Scheduler::Scheduler(Session& session, EngineMetrics& metrics)
    : session_(session), metrics_(metrics) {
  running_.reserve(static_cast<size_t>(session.options().slots));
}

int64_t Scheduler::running_count() const {
  return std::ranges::count_if(running_, [](const Sequence& each) { return each->slot >= 0; });
}

template <typename List>
void Scheduler::insert(List& list, Sequence& sequence) {
  const auto order = [](const Sequence& each) {
    return std::tuple(!each->runs_alone, each->due_ns, each->id);
  };
  const auto place = std::ranges::upper_bound(list, order(sequence), {}, order);
  *list.insert(place, nullptr) = std::move(sequence);
}

Scheduler::Sequence Scheduler::take(uint64_t id) {
  Sequence taken;
  const auto take_from = [&](auto& list) {
    const auto found = std::ranges::find(list, id, [](const Sequence& each) { return each->id; });
    if (found == list.end()) return;
    taken = std::move(*found);
    list.erase(found);
  };
  take_from(waiting_);
  if (taken == nullptr) take_from(running_);
  return taken;
}

Scheduler::Sequence Scheduler::take_first_waiting() {
  Sequence first = std::move(waiting_.front());
  waiting_.pop_front();
  return first;
}

Scheduler::Sequence Scheduler::take_last_running() {
  Sequence last = std::move(running_.back());
  running_.pop_back();
  return last;
}

bool Scheduler::admit_first() {
  EngineSequence& next = *waiting_.front();
  if (!running_.empty() && (next.runs_alone || running_.front()->runs_alone)) return false;
  if (session_.free_slots().is_empty()) {
    if (running_.empty() || !yields(*running_.back(), next)) return false;
    preempt_last();
  }
  next.slot = session_.free_slots().take();
  session_.begin(
      {next.slot, next.ids, next.request.sampling, next.request.tenant, next.generated()});
  if (!takes_blocks(next)) {
    release(next);
    return false;
  }
  insert(running_, waiting_.front());
  waiting_.pop_front();
  return true;
}

// The blocks that a sequence lacks for its known ids.
int64_t Scheduler::missing(const EngineSequence& sequence) const {
  return session_.blocks().missing(sequence.slot, std::ssize(sequence.ids));
}

// Finds blocks for a prompt that has begun in its slot, and preempts others for them if needed.
// Each running sequence keeps a spare block, so that it is not preempted again at once. Returns
// false if there are not enough blocks.
bool Scheduler::takes_blocks(const EngineSequence& next) {
  std::vector<BlockUse> running;
  for (const Sequence& each : running_)
    running.push_back(
        {yields(*each, next), session_.blocks().owned(each->slot), missing(*each) + 1});
  const std::optional<int64_t> count =
      count_preempted(running, missing(next), session_.blocks().available());
  for (int64_t i = 0; count && i < *count; ++i) preempt_last();
  return count.has_value();
}

void Scheduler::make_room() {
  const auto lacks_blocks = [&] {
    int64_t blocks = 0;
    for (const Sequence& each : running_) blocks += missing(*each);
    return blocks > session_.blocks().available();
  };
  while (running_.size() > 1 && lacks_blocks()) preempt_last();
}

void Scheduler::preempt_last() {
  requeue_last();
  metrics_.count_preemption();
}

void Scheduler::requeue_last() {
  EngineSequence& last = *running_.back();
  insert(waiting_, running_.back());
  running_.pop_back();
  metrics_.requeued(last);
  release(last);
}

void Scheduler::release(EngineSequence& sequence) {
  if (sequence.slot < 0) return;
  session_.release(sequence.slot);
  session_.free_slots().give(std::exchange(sequence.slot, -1));
}

void Scheduler::erase_ended() {
  std::erase_if(running_, [](const Sequence& each) { return each->slot < 0; });
}

}  // namespace ridge::serve
