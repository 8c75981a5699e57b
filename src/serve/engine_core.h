// SPDX-License-Identifier: Apache-2.0
// The steps of an engine: admits requests, runs what they need next and hands out its tokens. Only
// the engine's thread calls it.
//
// Whatever throws ends one request, and the others go on. If several share what threw, they begin
// again, each alone until its next token, so that the one at fault is found.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>

#include "serve/answer_writer.h"
#include "serve/engine_metrics.h"
#include "serve/mailbox.h"
#include "serve/scheduler.h"
#include "serve/session.h"
#include "serve/step_launcher.h"

namespace ridge::serve {

class EngineCore {
 public:
  // All must outlive the core.
  EngineCore(Session& session,
             Mailbox& mailbox,
             EngineMetrics& metrics,
             StepBudget budget,
             bool runs_ahead)
      : session_(session),
        mailbox_(mailbox),
        metrics_(metrics),
        launcher_(session, std::move(budget), runs_ahead),
        scheduler_(session, metrics),
        answers_(session, scheduler_, mailbox, metrics) {}

  bool is_idle() const { return scheduler_.is_idle(); }
  void add(Scheduler::Sequence sequence);
  void cancel(uint64_t id);
  // Admits sequences, hands out the tokens of a step, next to which a device may compute the next
  // one, and wakes the readers.
  void step();
  // Finishes the step that runs ahead, so that another may use free slots of the session.
  void land();
  // Cancels all requests.
  void stop();

  const StepBudget& budget() const { return launcher_.budget(); }

 private:
  void admit();
  void run();
  LaunchedStep launch();
  void finish(LaunchedStep step);
  void hand_out(const LaunchedStep& step, const std::vector<int32_t>& tokens);
  void isolate(const std::exception& error);

  Session& session_;
  Mailbox& mailbox_;
  EngineMetrics& metrics_;
  StepLauncher launcher_;
  Scheduler scheduler_;
  AnswerWriter answers_;
};

}  // namespace ridge::serve
