// SPDX-License-Identifier: Apache-2.0
// Makes the parts of answers.
#include "serve/answer_writer.h"

#include <algorithm>
#include <new>

#include "base/clock.h"
#include "base/error.h"
#include "serve/log_probability.h"

namespace ridge::serve {
namespace {

Delta failure(const std::exception& error) noexcept {
  Delta delta;
  try {
    delta.error = error.what();
  } catch (const std::bad_alloc&) {
    delta.error = "out of memory";  // so short that it needs none
  }
  return delta;
}

// The last part of an answer, with the text that was held back and the request's metrics.
Delta last_delta(EngineSequence& sequence, Delta delta, double now) {
  delta.text += sequence.text.finish();
  RequestMetrics& metrics = sequence.metrics;
  metrics.queue_ns = (sequence.was_admitted ? sequence.admitted_ns : now) - sequence.submitted_ns;
  metrics.cached_tokens = sequence.cached_tokens;
  metrics.later_tokens = std::max<int64_t>(sequence.generated() - 1, 0);
  metrics.decode_ns = sequence.last_ns - sequence.first_ns;
  delta.metrics = std::make_shared<RequestMetrics>(metrics);
  return delta;
}

}  // namespace

void AnswerWriter::accept(EngineSequence& sequence, int32_t token) {
  if (token < 0)
    return end(sequence, Finish::kFailed,
               {.error = "[model] expected finite logits, got nan or infinity"});
  Delta delta{.tokens = 1, .ids = {token}};
  try {
    if (const int64_t top = sequence.request.top_logprobs; top >= 0) {
      std::vector<float> logits = session_.logits(sequence.slot);
      logits.resize(static_cast<size_t>(session_.config().sampled_vocabulary()));
      delta.scores = {score_token(logits, token, top)};
    }
  } catch (const Error& error) {
    return refuse(sequence, error);
  }
  sequence.ids.push_back(token);
  delta.text = sequence.text.push(token);
  metrics_.generated(sequence);
  if (sequence.generated() == 1) delta.cached_tokens = sequence.cached_tokens;
  const bool is_full =
      sequence.generated() >= sequence.request.max_tokens || session_.room(sequence.slot) < 1;
  if (sequence.text.has_ended() || is_full)
    return end(sequence, sequence.text.has_ended() ? Finish::kStop : Finish::kLength,
               std::move(delta));
  put(sequence, std::move(delta));
}

void AnswerWriter::fail(EngineSequence& sequence, const std::exception& error) {
  metrics_.count_internal_error();
  if (!sequence.has_ended) refuse(sequence, error);
}

void AnswerWriter::refuse(EngineSequence& sequence, const std::exception& error) {
  end(sequence, Finish::kFailed, failure(error));
}

void AnswerWriter::put(EngineSequence& sequence, Delta delta) {
  unread_.push_back(sequence.output);  // a reader who is woken in vain finds nothing
  sequence.output->put(std::move(delta));
}

void AnswerWriter::wake_readers() {
  for (const auto& each : unread_) each->wake();
  unread_.clear();
}

void AnswerWriter::end(EngineSequence& sequence, Finish finish, Delta delta) {
  const double now = now_ns();
  scheduler_.release(sequence);
  const int64_t running = scheduler_.running_count();
  delta.finish = finish;
  metrics_.ended(sequence, running, now, [&](EngineCounts& counts) {
    try {
      put(sequence, last_delta(sequence, std::move(delta), now));
      return finish;
    } catch (const std::exception& error) {
      ++counts.internal_errors;
      Delta failed = failure(error);
      failed.finish = Finish::kFailed;
      sequence.output->put(std::move(failed));
      sequence.output->wake();
      return Finish::kFailed;
    }
  });
  sequence.has_ended = true;
  metrics_.count_load(running);
  mailbox_.count_ended(sequence.was_admitted);
}

}  // namespace ridge::serve
