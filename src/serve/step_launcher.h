// SPDX-License-Identifier: Apache-2.0
// Launches the steps of an engine: the parts that the schedule chooses and, while all sequences go
// on by a token, the step after that one, before the tokens of the first are known. So the host
// schedules, hands out and counts while the device computes.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "serve/mailbox.h"
#include "serve/session.h"
#include "serve/step_budget.h"
#include "serve/step_cost.h"

namespace ridge::serve {

// A step that is launched, with a part of each of its sequences. A sequence that ends meanwhile is
// null: its part is discarded.
struct LaunchedStep {
  std::vector<EngineSequence*> sequences = {};
  std::vector<PartExtent> parts = {};
  std::vector<int64_t> slots = {};
  bool is_ahead = false;  // Its ids were not known when it was launched.
  double begin_ns = 0;
  const Bucket* bucket = nullptr;
  SampledTokens sampled = {};
};

class StepLauncher {
 public:
  using Sequences = std::span<const std::unique_ptr<EngineSequence>>;

  // The session must outlive the launcher.
  StepLauncher(Session& session, StepBudget budget, bool runs_ahead)
      : session_(session), budget_(std::move(budget)), runs_ahead_(runs_ahead) {}

  // Returns the step that was launched ahead or launches one. May launch the next one too, unless
  // others wait. Throws what Session::compute throws.
  LaunchedStep next(Sequences running, bool others_wait);
  bool has_ahead() const { return ahead_.has_value(); }
  LaunchedStep take_ahead() { return *std::exchange(ahead_, std::nullopt); }
  // Waits for a step and returns its tokens: the one after each part, or -1 if it is not sampled or
  // its logits are NaN or infinite. Steps are collected in their order.
  std::vector<int32_t> collect(LaunchedStep& step);
  // Takes a sequence that has ended out of the step that was launched ahead.
  void leave(EngineSequence& ended);
  // Forgets the step that was launched ahead.
  void drop() { ahead_.reset(); }

  const StepBudget& budget() const { return budget_; }

 private:
  int64_t pending(const EngineSequence& sequence) const;
  int64_t reach(Sequences running) const;
  LaunchedStep launch(Sequences running);
  bool is_next_known(const LaunchedStep& step, Sequences running) const;
  LaunchedStep launch_ahead(const LaunchedStep& step);
  void note_run(LaunchedStep& step);

  Session& session_;
  const StepBudget budget_;
  const bool runs_ahead_;
  std::optional<LaunchedStep> ahead_;
};

}  // namespace ridge::serve
