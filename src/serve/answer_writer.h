// SPDX-License-Identifier: Apache-2.0
// Hands the tokens of sequences to the readers of their answers, and ends requests.
#pragma once

#include <exception>
#include <memory>
#include <vector>

#include "serve/engine_metrics.h"
#include "serve/mailbox.h"
#include "serve/scheduler.h"
#include "serve/session.h"

namespace ridge::serve {

class AnswerWriter {
 public:
  AnswerWriter(const Session& session,
               Scheduler& scheduler,
               Mailbox& mailbox,
               EngineMetrics& metrics)
      : session_(session), scheduler_(scheduler), mailbox_(mailbox), metrics_(metrics) {}

  // Adds a token to a running sequence, which it may end. -1 stands for logits that are not finite.
  void accept(EngineSequence& sequence, int32_t token);
  // Ends a request, with the last part of its answer. Where memory is lacking for that, the request
  // fails instead.
  void end(EngineSequence& sequence, Finish finish, Delta delta);
  // Ends a request because of an error: an internal one, or one that is the request's own fault.
  void fail(EngineSequence& sequence, const std::exception& error);
  void refuse(EngineSequence& sequence, const std::exception& error);
  // Readers wake at the end of the step, because each of them may take this thread's core.
  void wake_readers();

 private:
  void put(EngineSequence& sequence, Delta delta);

  const Session& session_;
  Scheduler& scheduler_;
  Mailbox& mailbox_;
  EngineMetrics& metrics_;
  std::vector<std::shared_ptr<OutputQueue>> unread_;  // queues whose readers must be woken
};

}  // namespace ridge::serve
