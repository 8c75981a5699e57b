// SPDX-License-Identifier: Apache-2.0
// The order of a step, and what happens to the others when it throws.
#include "serve/engine_core.h"

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"

namespace ridge::serve {

void EngineCore::add(Scheduler::Sequence sequence) {
  try {
    scheduler_.add(sequence);
  } catch (const std::exception& error) {
    answers_.fail(*sequence, error);
  }
}

void EngineCore::cancel(uint64_t id) {
  const Scheduler::Sequence taken = scheduler_.take(id);
  if (taken == nullptr) return;
  answers_.end(*taken, Finish::kCancelled, {});
  launcher_.leave(*taken);
}

void EngineCore::step() {
  if (!scheduler_.waiting().empty()) land();
  admit();
  run();
  metrics_.count_load(scheduler_.running_count());
  answers_.wake_readers();
}

void EngineCore::stop() {
  launcher_.drop();
  while (!scheduler_.running().empty())
    answers_.end(*scheduler_.take_last_running(), Finish::kCancelled, {});
  while (!scheduler_.waiting().empty())
    answers_.end(*scheduler_.take_first_waiting(), Finish::kCancelled, {});
  answers_.wake_readers();
}

// Admits requests in order: none passes one that has to wait.
void EngineCore::admit() {
  while (!scheduler_.waiting().empty()) {
    EngineSequence& next = *scheduler_.waiting().front();
    try {
      const bool is_new = !next.was_admitted;
      if (!scheduler_.admit_first()) return;
      metrics_.admitted(next);
      if (is_new) mailbox_.count_admitted();
    } catch (const std::exception& error) {
      const auto* fault = dynamic_cast<const Error*>(&error);
      if (fault != nullptr && fault->code() == ExitCode::kUsage)  // The request is at fault.
        answers_.refuse(next, error);
      else
        answers_.fail(next, error);
      scheduler_.take_first_waiting();
    }
  }
}

void EngineCore::run() {
  if (scheduler_.running().empty()) return land();
  try {
    if (!launcher_.has_ahead()) scheduler_.make_room();
    finish(launch());
  } catch (const std::exception& error) {
    isolate(error);
  }
  if (scheduler_.running().empty()) land();
}

// Finishes the step that was launched ahead, before sequences come or go.
void EngineCore::land() {
  if (!launcher_.has_ahead()) return;
  try {
    finish(launcher_.take_ahead());
  } catch (const std::exception& error) {
    isolate(error);
  }
}

LaunchedStep EngineCore::launch() {
  const double begin = now_ns();
  try {
    return launcher_.next(scheduler_.running(), !scheduler_.waiting().empty());
  } catch (...) {
    metrics_.stepped(
        {.begin_ns = begin, .end_ns = now_ns(), .sequences = std::ssize(scheduler_.running())});
    throw;
  }
}

// Waits for a step's tokens and hands them out.
void EngineCore::finish(LaunchedStep step) {
  std::vector<int32_t> tokens;
  LoggedStep logged{.begin_ns = std::max(step.begin_ns, metrics_.last_step_ns())};
  logged.sequences = std::ssize(step.sequences) - std::ranges::count(step.sequences, nullptr);
  try {
    tokens = launcher_.collect(step);
    logged.end_ns = now_ns();
    metrics_.add_cost(step, logged);
  } catch (...) {
    logged.end_ns = now_ns();
    metrics_.stepped(logged);
    throw;
  }
  metrics_.stepped(logged);
  hand_out(step, tokens);
}

void EngineCore::hand_out(const LaunchedStep& step, const std::vector<int32_t>& tokens) {
  for (size_t i = 0; i < step.sequences.size(); ++i) {
    if (step.sequences[i] == nullptr || !step.parts[i].samples) continue;
    EngineSequence& each = *step.sequences[i];
    try {
      if (step.is_ahead)
        session_.note(each.slot, each.ids[static_cast<size_t>(step.parts[i].begin)]);
      answers_.accept(each, tokens[i]);
      each.runs_alone = false;
    } catch (const std::exception& error) {
      answers_.fail(each, error);
    }
    if (each.slot < 0) launcher_.leave(each);
  }
  scheduler_.erase_ended();
}

// Ends the running sequence if there is one, because the error is its own. Several begin again,
// each alone until its next token, as the error may concern any of them.
void EngineCore::isolate(const std::exception& error) {
  launcher_.drop();
  if (scheduler_.running().size() == 1)
    return answers_.fail(*scheduler_.take_last_running(), error);
  metrics_.count_internal_error();
  while (!scheduler_.running().empty()) {
    EngineSequence& last = *scheduler_.running().back();
    last.runs_alone = true;
    try {
      scheduler_.requeue_last();
    } catch (const std::exception& lack) {
      answers_.fail(*scheduler_.take_last_running(), lack);
    }
  }
}

}  // namespace ridge::serve
