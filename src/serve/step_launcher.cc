// SPDX-License-Identifier: Apache-2.0
// Turns the schedule's choice into parts of a run.
#include "serve/step_launcher.h"

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "serve/schedule.h"

namespace ridge::serve {

// The number of ids that are known and not computed.
int64_t StepLauncher::pending(const EngineSequence& sequence) const {
  return std::ssize(sequence.ids) - session_.length(sequence.slot);
}

// An upper bound on the positions of the next step.
int64_t StepLauncher::reach(Sequences running) const {
  int64_t most = 0;
  for (const auto& each : running)
    most = std::max(
        most, session_.length(each->slot) + std::min(pending(*each), session_.options().chunk));
  return most;
}

LaunchedStep StepLauncher::next(Sequences running, bool others_wait) {
  LaunchedStep now = ahead_ ? take_ahead() : launch(running);
  if (runs_ahead_ && !others_wait && is_next_known(now, running)) ahead_ = launch_ahead(now);
  return now;
}

void StepLauncher::leave(EngineSequence& ended) {
  EngineSequence* const nobody = nullptr;
  if (ahead_) std::ranges::replace(ahead_->sequences, &ended, nobody);
}

// Notes the run that was started for a step.
void StepLauncher::note_run(LaunchedStep& step) {
  step.bucket = session_.runner().last_bucket();
  step.sampled = session_.sampling().start_read();
}

std::vector<int32_t> StepLauncher::collect(LaunchedStep& step) {
  SlotSampling& sampling = session_.sampling();
  sampling.finish_read(std::move(step.sampled));
  std::vector<int32_t> tokens(step.parts.size(), -1);
  for (size_t i = 0; i < tokens.size(); ++i)
    if (step.parts[i].samples) tokens[i] = sampling.take(step.slots[i]);
  return tokens;
}

LaunchedStep StepLauncher::launch(Sequences running) {
  std::vector<Running> state;
  for (const auto& each : running)
    state.push_back({pending(*each), each->generated() > 0 && pending(*each) == 1});
  const std::vector<int64_t> counts =
      choose_step(state, {session_.options().chunk, budget_.tokens(reach(running))});
  LaunchedStep step{.begin_ns = now_ns()};
  std::vector<SequencePart> parts;
  for (size_t i = 0; i < running.size(); ++i) {
    if (counts[i] == 0) continue;
    EngineSequence& each = *running[i];
    const int64_t done = session_.length(each.slot);
    const bool samples = counts[i] == state[i].pending;
    const auto ids = std::span<const int32_t>(each.ids).subspan(static_cast<size_t>(done),
                                                                static_cast<size_t>(counts[i]));
    parts.push_back({each.slot, ids, samples});
    step.parts.push_back({done, counts[i], samples});
    step.slots.push_back(each.slot);
    step.sequences.push_back(&each);
  }
  session_.compute(parts);
  note_run(step);
  return step;
}

// Whether each running sequence goes on by the token that the step samples, unless that ends it,
// and nothing on the host needs that token before.
bool StepLauncher::is_next_known(const LaunchedStep& step, Sequences running) const {
  if (step.sequences.size() != running.size()) return false;
  int64_t missing = 0;
  for (size_t i = 0; i < step.sequences.size(); ++i) {
    const EngineSequence* each = step.sequences[i];
    if (each == nullptr || !step.parts[i].samples) return false;
    const bool may_end = each->generated() + 1 >= each->request.max_tokens ||
                         session_.room(each->slot) < 2 || each->runs_alone;
    if (may_end || each->request.top_logprobs >= 0 || session_.sampling().counts_tokens(each->slot))
      return false;
    missing += session_.blocks().missing(each->slot, session_.length(each->slot) + 1);
  }
  return missing <= session_.blocks().available();
}

LaunchedStep StepLauncher::launch_ahead(const LaunchedStep& step) {
  LaunchedStep next{.sequences = step.sequences, .is_ahead = true, .begin_ns = now_ns()};
  std::ranges::sort(next.sequences, {}, &EngineSequence::slot);
  for (const EngineSequence* each : next.sequences) {
    next.slots.push_back(each->slot);
    next.parts.push_back({session_.length(each->slot), 1, true});
  }
  session_.compute_next(next.slots);
  note_run(next);
  return next;
}

}  // namespace ridge::serve
