// SPDX-License-Identifier: Apache-2.0
// The engine's thread reads the mailbox, admits requests, runs one step and hands out its tokens.
#include "serve/engine.h"

#include <algorithm>
#include <future>
#include <new>
#include <tuple>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "serve/log_probability.h"
#include "serve/schedule.h"

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

}  // namespace

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
      event_log_(session.blocks().blocks()),
      mailbox_(options.queue + session.options().slots, event_log_),
      launcher_(session,
                StepBudget(session,
                           options.ceilings.get(),
                           options.max_batched_tokens,
                           options.step_ms * 1e6),
                options.runs_ahead.value_or(session.runner().is_on_device())),
      accounting_(session, options.ceilings) {
  counts_.slots = session.options().slots;
  for (int64_t slot = counts_.slots; slot-- > 0;) free_slots_.push_back(slot);
  running_.reserve(free_slots_.size());
  counts_.blocks = session.blocks().blocks();
  std::promise<void> is_warm;
  std::future<void> warmed = is_warm.get_future();
  thread_ = std::thread([this, &progress, is_warm = std::move(is_warm)]() mutable {
    try {
      warm_up(progress);
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

// Runs one token, which loads the weights. A device also records the buckets of all steps.
void Engine::warm_up(const Progress& progress) {
  if (session_.runner().is_on_device() && session_.options().cached)
    session_.prepare([&](const Bucket& bucket, int64_t built, int64_t all) {
      accounting_.prepare(bucket);
      if (progress) progress(built, all);
    });
  const int32_t id = 0;
  const Prompt prompt{0, {&id, 1}, {}};
  session_.start({&prompt, 1});
  session_.release(0);
  session_.runner().touch_cache();
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
  if (handle.refusal != Refusal::kFull) return handle;
  const std::lock_guard lock(counts_mutex_);
  ++counts_.refused;
  return handle;
}

EngineCounts Engine::counts() const {
  const int64_t queued = mailbox_.queued_and_open().first;
  const std::lock_guard lock(counts_mutex_);
  EngineCounts counts = counts_;
  counts.waiting = queued;
  return counts;
}

void Engine::serve() {
  while (take_mail()) {
    admit();
    step();
    count_load();
    wake_readers();
  }
  launcher_.drop();
  for (auto& each : running_) end(*each, Finish::kCancelled, {});
  for (auto& each : waiting_) end(*each, Finish::kCancelled, {});
  wake_readers();
}

// Waits while there is nothing to do. Returns false when the engine stops.
bool Engine::take_mail() {
  Mailbox::Mail mail;
  const bool goes_on = mailbox_.take(!running_.empty() || !waiting_.empty(), mail);
  for (auto& each : mail.submitted) {
    try {
      insert(waiting_, each);
    } catch (const std::exception& error) {
      fail(*each, error);
    }
  }
  if (!goes_on) return false;
  for (uint64_t id : mail.cancelled) drop(id);
  if (!waiting_.empty()) land();
  return true;
}

void Engine::drop(uint64_t id) {
  const auto remove = [&](auto& from) {
    const auto found = std::ranges::find(from, id, [](const auto& each) { return each->id; });
    if (found == from.end()) return;
    end(**found, Finish::kCancelled, {});
    launcher_.leave(**found);
    from.erase(found);
  };
  remove(waiting_);
  remove(running_);
}

// Sorts by the time at which they are due. Sequences that run alone come before all others. The
// sequence stays with the caller if this throws.
template <typename List>
void Engine::insert(List& list, std::unique_ptr<EngineSequence>& sequence) {
  const auto order = [](const auto& each) {
    return std::tuple(!each->runs_alone, each->due_ns, each->id);
  };
  const auto place = std::ranges::upper_bound(list, order(sequence), {}, order);
  *list.insert(place, nullptr) = std::move(sequence);
}

// Admits requests in order: none passes one that has to wait.
void Engine::admit() {
  while (!waiting_.empty()) {
    EngineSequence& next = *waiting_.front();
    try {
      if (!admit(next)) return;
    } catch (const std::exception& error) {
      const auto* fault = dynamic_cast<const Error*>(&error);
      if (fault != nullptr && fault->code() == ExitCode::kUsage)  // The request is at fault.
        end(next, Finish::kFailed, failure(error));
      else
        fail(next, error);
      waiting_.pop_front();
    }
  }
}

// Admits the first waiting sequence. Returns false if it has to wait. If this throws, the sequence
// is still the first that waits, and may have a slot.
bool Engine::admit(EngineSequence& next) {
  if (!running_.empty() && (next.runs_alone || running_.front()->runs_alone)) return false;
  if (free_slots_.empty()) {
    if (!yields(*running_.back(), next)) return false;
    preempt_last();
  }
  next.slot = free_slots_.back();
  free_slots_.pop_back();
  session_.begin(
      {next.slot, next.ids, next.request.sampling, next.request.tenant, next.generated()});
  if (!takes_blocks(next)) {
    session_.release(next.slot);
    free_slots_.push_back(std::exchange(next.slot, -1));
    return false;
  }
  insert(running_, waiting_.front());
  waiting_.pop_front();
  count_admitted(next);
  return true;
}

// Whether a running sequence may be preempted for a waiting one, which must have the better
// priority and be due earlier.
bool Engine::yields(const EngineSequence& running, const EngineSequence& next) {
  return running.request.priority > next.request.priority && running.due_ns > next.due_ns;
}

// Finds blocks for a prompt that has begun in its slot, and preempts others for them if needed.
// Each running sequence keeps a spare block, so that it is not preempted again at once. Returns
// false if there are not enough blocks.
bool Engine::takes_blocks(const EngineSequence& next) {
  std::vector<BlockUse> running;
  for (const auto& each : running_)
    running.push_back({yields(*each, next), session_.blocks().owned(each->slot),
                       session_.blocks().missing(each->slot, std::ssize(each->ids)) + 1});
  const std::optional<int64_t> count =
      count_preempted(running, session_.blocks().missing(next.slot, std::ssize(next.ids)),
                      session_.blocks().available());
  if (!count) return false;
  for (int64_t i = 0; i < *count; ++i) preempt_last();
  return true;
}

void Engine::count_admitted(EngineSequence& sequence) {
  const double now = now_ns();
  event_log_.admit(sequence.log_index, session_.blocks().cached_tokens(sequence.slot), now);
  if (sequence.was_admitted) return;
  sequence.was_admitted = true;
  sequence.admitted_ns = now;
  sequence.cached_tokens = session_.blocks().cached_tokens(sequence.slot);
  mailbox_.count_admitted();
  const std::lock_guard lock(counts_mutex_);
  counts_.queue.observe((sequence.admitted_ns - sequence.submitted_ns) / 1e9);
  counts_.prompt_tokens += std::ssize(sequence.request.prompt);
  counts_.cached_tokens += sequence.cached_tokens;
}

// Preempts the last sequences until the others have blocks for their known ids.
void Engine::make_room() {
  const auto missing = [&] {
    int64_t blocks = 0;
    for (const auto& each : running_)
      blocks += session_.blocks().missing(each->slot, std::ssize(each->ids));
    return blocks;
  };
  while (running_.size() > 1 && missing() > session_.blocks().available()) preempt_last();
}

void Engine::preempt_last() {
  requeue_last();
  const std::lock_guard lock(counts_mutex_);
  ++counts_.preemptions;
}

// Puts the last running sequence back into the queue, to be recomputed from its ids. It still runs
// if this throws.
void Engine::requeue_last() {
  EngineSequence& last = *running_.back();
  insert(waiting_, running_.back());
  running_.pop_back();
  event_log_.requeue(last.log_index, now_ns());
  session_.release(last.slot);
  free_slots_.push_back(std::exchange(last.slot, -1));
}

// Hands out the tokens of a step, next to which a device may compute the next one.
void Engine::step() {
  if (running_.empty()) return;
  try {
    if (!launcher_.has_ahead()) make_room();
    finish(launch());
  } catch (const std::exception& error) {
    isolate(error);
  }
  if (running_.empty()) land();
}

// Finishes the step that was launched ahead, before sequences come or go.
void Engine::land() {
  if (!launcher_.has_ahead()) return;
  try {
    finish(launcher_.take_ahead());
  } catch (const std::exception& error) {
    isolate(error);
  }
}

LaunchedStep Engine::launch() {
  const double begin = now_ns();
  try {
    return launcher_.next(running_, !waiting_.empty());
  } catch (...) {
    log_step({.begin_ns = begin, .end_ns = now_ns(), .sequences = std::ssize(running_)});
    throw;
  }
}

void Engine::log_step(const LoggedStep& step) {
  event_log_.step(step);
  const std::lock_guard lock(counts_mutex_);
  ++counts_.steps;
  counts_.last_step_s = step.end_ns / 1e9;
}

// Waits for a step's tokens and hands them out.
void Engine::finish(LaunchedStep step) {
  std::vector<int32_t> tokens;
  LoggedStep logged{.begin_ns = std::max(step.begin_ns, 1e9 * counts_.last_step_s)};
  logged.sequences = std::ssize(step.sequences) - std::ranges::count(step.sequences, nullptr);
  try {
    tokens = launcher_.collect(step);
    if (logged.sequences == 0) return;
    logged.end_ns = now_ns();
    count_costs(step, logged);
  } catch (...) {
    logged.end_ns = now_ns();
    log_step(logged);
    throw;
  }
  log_step(logged);
  for (size_t i = 0; i < step.sequences.size(); ++i) {
    if (step.sequences[i] == nullptr || !step.parts[i].samples) continue;
    EngineSequence& each = *step.sequences[i];
    try {
      if (step.is_ahead)
        session_.note(each.slot, each.ids[static_cast<size_t>(step.parts[i].begin)]);
      accept(each, tokens[i]);
      each.runs_alone = false;
    } catch (const std::exception& error) {
      fail(each, error);
    }
    if (each.slot < 0) launcher_.leave(each);
  }
  std::erase_if(running_, [](const auto& each) { return each->slot < 0; });
}

// Ends the running sequence if there is one, because the error is its own. Several begin again,
// each alone until its next token, as the error may concern any of them.
void Engine::isolate(const std::exception& error) {
  launcher_.drop();
  if (running_.size() == 1) {
    fail(*running_.front(), error);
    return running_.clear();
  }
  count_internal_error();
  while (!running_.empty()) {
    EngineSequence& last = *running_.back();
    last.runs_alone = true;
    try {
      requeue_last();
    } catch (const std::exception& lack) {
      fail(last, lack);
      running_.pop_back();
    }
  }
}

// Adds a step's cost to its requests, except to those that ended before it did.
void Engine::count_costs(const LaunchedStep& step, LoggedStep& logged) {
  std::vector<PartExtent> extents;
  std::vector<RequestMetrics*> metrics;
  for (size_t i = 0; i < step.parts.size(); ++i) {
    EngineSequence* each = step.sequences[i];
    if (each == nullptr) continue;
    extents.push_back(step.parts[i]);
    metrics.push_back(&each->metrics);
    const int64_t tokens = step.parts[i].tokens;
    const bool decodes = tokens == 1 && each->generated() > 0;
    (decodes ? logged.decode_tokens : logged.prefill_tokens) += tokens;
  }
  if (extents.empty()) return;
  logged.cost = accounting_.add(*step.bucket, extents, logged.end_ns - logged.begin_ns, metrics);
  logged.product_type = accounting_.product_type();
  const std::lock_guard lock(counts_mutex_);
  counts_.cost += logged.cost;
  counts_.mfu = accounting_.mfu();
  counts_.mbu = accounting_.mbu();
}

void Engine::accept(EngineSequence& sequence, int32_t token) {
  if (token < 0)
    return end(sequence, Finish::kFailed,
               {.error = "[model] expected finite logits, got nan or infinity"});
  Delta delta{.tokens = 1};
  try {
    if (const int64_t top = sequence.request.top_logprobs; top >= 0) {
      std::vector<float> logits = session_.logits(sequence.slot);
      logits.resize(static_cast<size_t>(vocabulary()));
      delta.scores = {score_token(logits, token, top)};
    }
  } catch (const Error& error) {
    return end(sequence, Finish::kFailed, {.error = error.what()});
  }
  sequence.ids.push_back(token);
  delta.text = sequence.text.push(token);
  const double now = now_ns();
  const bool is_first = sequence.generated() == 1;
  {
    const std::lock_guard lock(counts_mutex_);
    ++counts_.generated_tokens;
    Histogram& histogram = is_first ? counts_.ttft : counts_.inter_token;
    histogram.observe((now - (is_first ? sequence.submitted_ns : sequence.last_ns)) / 1e9);
  }
  if (is_first) {
    sequence.first_ns = now;
    sequence.metrics.prefill_ns = now - sequence.admitted_ns;
    delta.cached_tokens = sequence.cached_tokens;
  }
  sequence.last_ns = now;
  event_log_.token(sequence.log_index, now);
  const bool is_full =
      sequence.generated() >= sequence.request.max_tokens || session_.room(sequence.slot) < 1;
  if (sequence.text.has_ended() || is_full)
    return end(sequence, sequence.text.has_ended() ? Finish::kStop : Finish::kLength,
               std::move(delta));
  put(sequence, std::move(delta));
}

void Engine::count_internal_error() {
  const std::lock_guard lock(counts_mutex_);
  ++counts_.internal_errors;
}

// Ends a request because of an internal error. The others go on.
void Engine::fail(EngineSequence& sequence, const std::exception& error) {
  count_internal_error();
  if (!sequence.has_ended) end(sequence, Finish::kFailed, failure(error));
}

// Readers wake at the end of the step, because each of them may take this thread's core.
void Engine::put(EngineSequence& sequence, Delta delta) {
  unread_.push_back(sequence.output);  // a reader who is woken in vain finds nothing
  sequence.output->put(std::move(delta));
}

void Engine::wake_readers() {
  for (const auto& each : unread_) each->wake();
  unread_.clear();
}

// Ends a request. The cache keeps its blocks for prompts that begin alike. Where memory is lacking
// for the end of the answer, the request fails instead.
void Engine::end(EngineSequence& sequence, Finish finish, Delta delta) {
  const double now = now_ns();
  delta.finish = finish;
  {
    const std::lock_guard lock(counts_mutex_);  // so that a reader finds the end counted
    try {
      put(sequence, last_delta(sequence, std::move(delta), now));
    } catch (const std::exception& error) {
      ++counts_.internal_errors;
      Delta failed = failure(error);
      failed.finish = finish = Finish::kFailed;
      sequence.output->put(std::move(failed));
      sequence.output->wake();
    }
    count_end(sequence, finish, now);
    sequence.has_ended = true;
    if (sequence.slot >= 0) {
      session_.release(sequence.slot);
      free_slots_.push_back(std::exchange(sequence.slot, -1));
    }
    count_running();
  }
  count_load();
  event_log_.end(sequence.log_index, finish, now);
  mailbox_.count_ended(sequence.was_admitted);
}

// The last part of an answer, with the text that was held back and the request's metrics.
Delta Engine::last_delta(EngineSequence& sequence, Delta delta, double now) const {
  delta.text += sequence.text.finish();
  RequestMetrics& metrics = sequence.metrics;
  metrics.queue_ns = (sequence.was_admitted ? sequence.admitted_ns : now) - sequence.submitted_ns;
  metrics.cached_tokens = sequence.cached_tokens;
  metrics.later_tokens = std::max<int64_t>(sequence.generated() - 1, 0);
  metrics.decode_ns = sequence.last_ns - sequence.first_ns;
  delta.metrics = std::make_shared<RequestMetrics>(metrics);
  return delta;
}

// The caller has locked the counts.
void Engine::count_end(const EngineSequence& sequence, Finish finish, double now) {
  ++counts_.finished[static_cast<size_t>(finish)];
  if (finish == Finish::kStop || finish == Finish::kLength)
    counts_.end_to_end.observe((now - sequence.submitted_ns) / 1e9);
  if (const int64_t generated = sequence.generated(); generated > 1)
    counts_.tpot.observe((sequence.last_ns - sequence.first_ns) / 1e9 /
                         static_cast<double>(generated - 1));
}

// The caller has locked the counts.
int64_t Engine::count_running() {
  counts_.running = std::ranges::count_if(running_, [](auto& each) { return each->slot >= 0; });
  counts_.blocks_in_use = session_.blocks().in_use();
  return counts_.running;
}

void Engine::count_load() {
  int64_t running = 0;
  {
    const std::lock_guard lock(counts_mutex_);
    running = count_running();
  }
  event_log_.blocks(session_.blocks(), running == 0, now_ns());
}

}  // namespace ridge::serve
