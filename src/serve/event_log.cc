// SPDX-License-Identifier: Apache-2.0
// Records into two rings under a lock.
#include "serve/event_log.h"

#include <algorithm>

#include "base/clock.h"

namespace ridge::serve {
namespace {

constexpr double kBlocksEveryNs = 0.2e9;  // copying the states of many blocks takes a while
constexpr double kReadsEveryNs = 5e9;     // readers that come less often see older states

}  // namespace

EventLog::EventLog(int64_t blocks) : origin_ns_(now_ns()), steps_(kSteps), requests_(kRequests) {
  blocks_.blocks = blocks;
  blocks_.blocks_per_cell =
      std::max<int64_t>((blocks + BlockMap::kMostCells - 1) / BlockMap::kMostCells, 1);
  const int64_t cells = (blocks + blocks_.blocks_per_cell - 1) / blocks_.blocks_per_cell;
  blocks_.cells.assign(static_cast<size_t>(cells), BlockState::kFree);
  blocks_.counts[static_cast<size_t>(BlockState::kFree)] = blocks;
}

int64_t EventLog::submit(uint64_t id, int64_t prompt_tokens, double now_ns) {
  const std::lock_guard lock(mutex_);
  for (size_t i = 0; i < kRequests; ++i) {
    const size_t at = (next_request_ + i) % kRequests;
    if (requests_[at].id != 0 && requests_[at].end_ns == 0) continue;  // open
    next_request_ = at + 1;
    requests_[at] = {.id = id, .event = ++event_, .prompt_tokens = prompt_tokens};
    enter(requests_[at], Stage::kQueued, now_ns);
    return static_cast<int64_t>(at);
  }
  return -1;
}

LoggedRequest* EventLog::changed(int64_t request) {
  if (request < 0) return nullptr;
  LoggedRequest& made = requests_[static_cast<size_t>(request)];
  made.event = ++event_;
  return &made;
}

void EventLog::enter(LoggedRequest& request, Stage stage, double now_ns) {
  if (request.stage_count < LoggedRequest::kMostStages)
    request.stages[request.stage_count++] = {stage, now_ns};
}

void EventLog::admit(int64_t request, int64_t cached_tokens, double now_ns) {
  const std::lock_guard lock(mutex_);
  LoggedRequest* made = changed(request);
  if (made == nullptr) return;
  // After a preemption, the cache may also hold tokens that this request computed itself.
  if (made->stage_count == 1) made->cached_tokens = cached_tokens;
  enter(*made, Stage::kPrefill, now_ns);
}

void EventLog::requeue(int64_t request, double now_ns) {
  const std::lock_guard lock(mutex_);
  LoggedRequest* made = changed(request);
  if (made != nullptr) enter(*made, Stage::kQueued, now_ns);
}

void EventLog::token(int64_t request, double now_ns) {
  const std::lock_guard lock(mutex_);
  LoggedRequest* made = changed(request);
  if (made == nullptr) return;
  if (made->generated_tokens++ == 0) made->first_ns = now_ns;
  made->last_ns = now_ns;
  if (made->stages[made->stage_count - 1].stage != Stage::kDecode)
    enter(*made, Stage::kDecode, now_ns);
}

void EventLog::end(int64_t request, Finish finish, double now_ns) {
  const std::lock_guard lock(mutex_);
  LoggedRequest* made = changed(request);
  if (made == nullptr) return;
  made->finish = finish;
  made->end_ns = now_ns;
}

void EventLog::step(LoggedStep step) {
  const std::lock_guard lock(mutex_);
  step.event = ++event_;
  step.number = step_count_ + 1;
  steps_[static_cast<size_t>(step_count_++) % kSteps] = step;
}

void EventLog::blocks(const SequenceBlocks& blocks, bool is_idle, double now_ns) {
  const std::lock_guard lock(mutex_);
  const bool is_due = now_ns - read_ns_ < kReadsEveryNs && now_ns - blocks_ns_ >= kBlocksEveryNs;
  if (!is_idle && !is_due) return;
  blocks_ns_ = now_ns;
  blocks_.counts = {};
  std::ranges::fill(blocks_.cells, BlockState::kFree);
  for (int64_t block = 0; block < blocks_.blocks; ++block) {
    const BlockState state = blocks.state(block);
    ++blocks_.counts[static_cast<size_t>(state)];
    BlockState& cell = blocks_.cells[static_cast<size_t>(block / blocks_.blocks_per_cell)];
    cell = std::max(cell, state);
  }
}

EventLog::Snapshot EventLog::since(int64_t after, size_t most_steps) const {
  Snapshot made;
  made.origin_ns = origin_ns_;
  const std::lock_guard lock(mutex_);
  read_ns_ = now_ns();
  made.event = event_;
  const int64_t most = static_cast<int64_t>(std::min(most_steps, kSteps));
  for (int64_t i = std::max<int64_t>(step_count_ - most, 0); i < step_count_; ++i) {
    const LoggedStep& step = steps_[static_cast<size_t>(i) % kSteps];
    if (step.event > after) made.steps.push_back(step);
  }
  for (const LoggedRequest& each : requests_)
    if (each.event > after) made.requests.push_back(each);
  std::ranges::sort(made.requests, {}, &LoggedRequest::id);
  made.blocks = blocks_;
  return made;
}

}  // namespace ridge::serve
