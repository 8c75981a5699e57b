// SPDX-License-Identifier: Apache-2.0
// Starts and stops the engine's thread, which reads the mailbox and steps.
#include "serve/engine.h"

#include <omp.h>

#include <chrono>
#include <future>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/openmp_threads.h"
#include "runtime/ranks.h"
#include "serve/kept_sequence.h"
#include "serve/shared_steps.h"

namespace ridge::serve {

void validate(const EngineOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (options.max_batched_tokens < 1 || options.max_batched_tokens > kMost)
    throw usage_error("[max-batched-tokens] expected 1 to {}, got {}", kMost,
                      options.max_batched_tokens);
  if (!(options.step_ms >= 0 && options.step_ms <= 1e6))
    throw usage_error("[max-step-ms] expected 0 to 1000000 ms, got {}", options.step_ms);
  if (options.queue < 1 || options.queue > kMost)
    throw usage_error("[queue] expected 1 to {} requests, got {}", kMost, options.queue);
  if (options.most_priority < 0 || options.most_priority > kMost)
    throw usage_error("[max-priority] expected 0 to {}, got {}", kMost, options.most_priority);
  if (!(options.priority_ms >= 0 && options.priority_ms <= 1e6))
    throw usage_error("[priority-ms] expected 0 to 1000000 ms, got {}", options.priority_ms);
}

Engine::Engine(Session& session,
               const text::Tokenizer& tokenizer,
               const EngineOptions& options,
               const Progress& progress)
    : session_(session),
      tokenizer_(tokenizer),
      options_((validate(options), options)),
      metrics_(session, options.ceilings),
      mailbox_(options.queue + session.options().slots, metrics_.log()),
      core_(session,
            mailbox_,
            metrics_,
            StepBudget(session,
                       options.ceilings.get(),
                       options.max_batched_tokens,
                       options.step_ms * 1e6),
            options.runs_ahead.value_or(session.runner().is_on_device())) {
  std::promise<void> is_warm;
  std::future<void> warmed = is_warm.get_future();
  // OpenMP keeps the number of threads that was chosen for each thread that computes.
  thread_ = std::thread([this, &progress,
                         threads = options_.threads > 0 ? options_.threads : omp_get_max_threads(),
                         is_warm = std::move(is_warm)]() mutable {
    const OpenmpThreads team(threads);
    try {
      const auto prepared = [&](const Bucket& bucket, int64_t built, int64_t all) {
        metrics_.prepare(bucket);
        if (progress) progress(built, all);
      };
      if (!options_.is_warm) warm_up(session_, prepared);
    } catch (...) {
      return is_warm.set_exception(std::current_exception());
    }
    is_warm.set_value();
    serve();
  });
  try {
    warmed.get();
  } catch (...) {
    thread_.join();
    throw;
  }
}

Engine::~Engine() {
  mailbox_.close(true);
  thread_.join();
}

void warm_up(Session& session, const ModelRunner::Prepared& prepared) {
  if (session.runner().is_on_device() && session.options().cached) session.prepare(prepared);
  if (session.free_slots().is_empty()) return;  // Sequences ran in them before.
  const int32_t id = 0;
  const OwnSlot slot(session);
  const Prompt prompt{slot, {&id, 1}, {}};
  session.start({&prompt, 1});
  session.runner().touch_cache();
}

void Engine::expect_runnable(const Request& request) const {
  const int64_t most = session_.options().capacity, vocabulary = this->vocabulary();
  if (request.prompt.empty()) throw usage_error("[prompt] expected at least one token, got none");
  if (std::ssize(request.prompt) > most)
    throw usage_error("[prompt] expected at most {} tokens, the context, got {}", most,
                      request.prompt.size());
  for (int32_t id : request.prompt)
    if (id < 0 || id >= vocabulary)
      throw usage_error("[prompt] expected ids from 0 to {}, got {}", vocabulary - 1, id);
  if (request.max_tokens < 1)
    throw usage_error("[max-tokens] expected at least 1, got {}", request.max_tokens);
  if (request.priority < -options_.most_priority || request.priority > options_.most_priority)
    throw usage_error("[priority] expected {} to {}, got {}", -options_.most_priority,
                      options_.most_priority, request.priority);
  if (session_.free_slots().kept() >= session_.options().slots)
    throw usage_error(
        "[sequence] expected a free sequence, callers keep all {}; end one of them, or have more "
        "(max_sequences)",
        session_.options().slots);
  validate(request.sampling);
}

RequestHandle Engine::submit(Request request, std::shared_ptr<OutputQueue> output) {
  expect_runnable(request);
  auto sequence = std::make_unique<EngineSequence>(std::move(request), tokenizer_);
  sequence->output = std::move(output);
  sequence->submitted_ns = now_ns();
  sequence->due_ns = sequence->submitted_ns +
                     static_cast<double>(sequence->request.priority) * options_.priority_ms * 1e6;
  const RequestHandle handle = mailbox_.submit(std::move(sequence));
  if (handle.refusal == Refusal::kFull) metrics_.count_refused();
  return handle;
}

std::future<void> Engine::use(std::function<void(Session&)> use) {
  return mailbox_.use(std::packaged_task<void()>([this, use = std::move(use)] {
    core_.land();
    use(session_);
  }));
}

EngineCounts Engine::counts() const {
  const int64_t queued = mailbox_.queued_and_open().first;
  EngineCounts counts = metrics_.counts();
  counts.waiting = queued;
  return counts;
}

void Engine::serve() {
  if (options_.ranks == nullptr) return run_steps(nullptr);
  try {
    StepLeader leader(session_.runner(), options_.ranks->all());
    run_steps(&leader);
    leader.end();
  } catch (const Error& error) {  // a rank is gone
    options_.ranks->watch().fail(error.what(), static_cast<int>(error.code()));
  }
}

void Engine::run_steps(StepLeader* leader) {
  while (take_mail()) {
    if (leader != nullptr && core_.is_idle()) leader->beat();
    core_.step();
  }
  core_.stop();
}

// Waits while there is nothing to do, until it is time to tell other ranks so. Returns false when
// the engine stops.
bool Engine::take_mail() {
  Mailbox::Mail mail;
  constexpr std::chrono::milliseconds kBeat(200), kLong(std::chrono::hours(1));
  const bool goes_on =
      mailbox_.take(!core_.is_idle(), options_.ranks != nullptr ? kBeat : kLong, mail);
  for (auto& each : mail.submitted) core_.add(std::move(each));
  for (uint64_t id : mail.cancelled) core_.cancel(id);
  for (auto& each : mail.uses) each();
  return goes_on;
}

}  // namespace ridge::serve
