// SPDX-License-Identifier: Apache-2.0
// The engine thread: take the mailbox, admit, run one step, hand out its tokens.
#include "serve/engine.h"

#include <algorithm>
#include <future>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "serve/answer_text.h"
#include "serve/log_probability.h"
#include "serve/schedule.h"

namespace ridge::serve {

struct Engine::Sequence {
  Sequence(uint64_t number, Request asked, const text::Tokenizer& tokenizer)
      : id(number),
        request(std::move(asked)),
        ids(request.prompt),
        text(tokenizer, request.stop, request.ignores_end) {}

  int64_t generated() const { return std::ssize(ids) - std::ssize(request.prompt); }

  uint64_t id = 0;
  Request request;
  std::vector<int32_t> ids;  // the prompt and what was generated
  AnswerText text;
  std::shared_ptr<Outbox> outbox;
  int64_t slot = -1;
  int64_t cached = 0;  // tokens of the prompt that were not computed again
  double submitted_ns = 0, admitted_ns = 0, first_ns = 0, last_ns = 0;
  Account account;
};

void validate(const EngineOptions& options) {
  constexpr int64_t kMost = int64_t{1} << 20;
  if (options.step_tokens < 1 || options.step_tokens > kMost)
    throw usage_error("[step-tokens] expected 1 to {}, got {}", kMost, options.step_tokens);
  if (options.queue < 1 || options.queue > kMost)
    throw usage_error("[queue] expected 1 to {} requests, got {}", kMost, options.queue);
}

Engine::Engine(Session& session, const text::Tokenizer& tokenizer, const EngineOptions& options)
    : session_(session),
      tokenizer_(tokenizer),
      options_(options),
      accounting_(session, options.ceilings) {
  validate(options_);
  slots_.resize(static_cast<size_t>(session.options().slots));
  counts_.slots = session.options().slots;
  counts_.positions = counts_.slots * session.options().capacity;
  std::promise<void> is_warm;
  std::future<void> warmed = is_warm.get_future();
  thread_ = std::thread([this, &is_warm] {
    try {
      warm_up();
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
  {
    const std::lock_guard lock(mutex_);
    drains_ = stops_ = true;
  }
  mail_.notify_one();
  thread_.join();
}

// The first run loads the weights.
void Engine::warm_up() {
  const int32_t id = 0;
  const Prompt prompt{0, {&id, 1}, {}};
  session_.start({&prompt, 1});
}

void Engine::expect_runnable(const Request& request) const {
  const int64_t most = session_.options().capacity, vocabulary = session_.config().vocabulary;
  if (request.prompt.empty()) throw usage_error("[prompt] expected at least one token, got none");
  if (std::ssize(request.prompt) > most)
    throw usage_error("[prompt] expected at most {} tokens, the context, got {}", most,
                      request.prompt.size());
  for (int32_t id : request.prompt)
    if (id < 0 || id >= vocabulary)
      throw usage_error("[prompt] expected ids from 0 to {}, got {}", vocabulary - 1, id);
  if (request.max_tokens < 1)
    throw usage_error("[max-tokens] expected at least 1, got {}", request.max_tokens);
  validate(request.sampling);
}

Ticket Engine::submit(Request request, std::shared_ptr<Outbox> outbox) {
  expect_runnable(request);
  auto sequence = std::make_unique<Sequence>(0, std::move(request), tokenizer_);
  sequence->outbox = std::move(outbox);
  sequence->submitted_ns = now_ns();
  Ticket ticket;
  {
    const std::lock_guard lock(mutex_);
    if (drains_) return {0, Refusal::kDraining};
    if (queued_ < options_.queue) {
      ticket.id = sequence->id = ++last_id_;
      ++queued_;
      ++open_;
      submitted_.push_back(std::move(sequence));
    }
  }
  if (ticket.id == 0) {
    const std::lock_guard lock(counts_mutex_);
    ++counts_.refused;
    return {0, Refusal::kFull};
  }
  mail_.notify_one();
  return ticket;
}

void Engine::cancel(uint64_t id) {
  {
    const std::lock_guard lock(mutex_);
    cancelled_.push_back(id);
  }
  mail_.notify_one();
}

void Engine::drain() {
  const std::lock_guard lock(mutex_);
  drains_ = true;
}

bool Engine::is_idle() const {
  const std::lock_guard lock(mutex_);
  return open_ == 0;
}

EngineCounts Engine::counts() const {
  int64_t queued = 0;
  {
    const std::lock_guard lock(mutex_);
    queued = queued_;
  }
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
  }
  for (auto& each : running_) end(*each, Finish::kCancelled, {});
  for (auto& each : waiting_) end(*each, Finish::kCancelled, {});
}

// Waits while there is nothing to do; false when the engine stops.
bool Engine::take_mail() {
  std::vector<uint64_t> cancelled;
  {
    std::unique_lock lock(mutex_);
    mail_.wait(lock, [&] {
      return stops_ || !submitted_.empty() || !cancelled_.empty() || !running_.empty() ||
             !waiting_.empty();
    });
    std::ranges::move(submitted_, std::back_inserter(waiting_));
    submitted_.clear();
    cancelled.swap(cancelled_);
    if (stops_) return false;
  }
  for (uint64_t id : cancelled) drop(id);
  return true;
}

void Engine::drop(uint64_t id) {
  const auto remove = [&](auto& from) {
    const auto found = std::ranges::find(from, id, [](const auto& each) { return each->id; });
    if (found == from.end()) return;
    end(**found, Finish::kCancelled, {});
    from.erase(found);
  };
  remove(waiting_);
  remove(running_);
}

void Engine::admit() {
  while (!waiting_.empty() && std::ranges::any_of(slots_, &Slot::is_free)) {
    std::unique_ptr<Sequence> sequence = std::move(waiting_.front());
    waiting_.pop_front();
    try {
      give_slot(*sequence);
      running_.push_back(std::move(sequence));
    } catch (const std::exception& error) {
      end(*sequence, Finish::kFailed, {.error = error.what()});
    }
  }
}

void Engine::give_slot(Sequence& sequence) {
  const std::vector<int32_t>& prompt = sequence.request.prompt;
  std::vector<FreeSlot> free;
  for (size_t s = 0; s < slots_.size(); ++s) {
    const Slot& slot = slots_[s];
    if (!slot.is_free) continue;
    int64_t same = std::ranges::mismatch(prompt, slot.ids).in1 - prompt.begin();
    same = std::min(same, std::ssize(prompt) - 1);  // the last one's logits give the answer
    const int64_t at = static_cast<int64_t>(s);
    free.push_back({at, std::ssize(slot.ids), session_.reusable(at, same), slot.last_used});
  }
  const FreeSlot& chosen = free[choose_slot(free)];
  Slot& slot = slots_[static_cast<size_t>(chosen.slot)];
  slot.ids.clear();  // in case a run fails
  session_.begin({chosen.slot, prompt, sequence.request.sampling, chosen.held});
  slot.is_free = false;
  slot.last_used = ++uses_;
  sequence.admitted_ns = now_ns();
  sequence.slot = chosen.slot;
  sequence.cached = chosen.held;
  {
    const std::lock_guard lock(mutex_);
    --queued_;
  }
  const std::lock_guard lock(counts_mutex_);
  counts_.queue.observe((sequence.admitted_ns - sequence.submitted_ns) / 1e9);
  counts_.prompt_tokens += std::ssize(prompt);
  counts_.cached_tokens += chosen.held;
}

void Engine::step() {
  if (running_.empty()) return;
  std::vector<Running> state;
  for (const auto& each : running_)
    state.push_back({std::ssize(each->ids) - session_.length(each->slot), each->generated() > 0});
  const std::vector<int64_t> counts =
      choose_step(state, {session_.options().chunk, options_.step_tokens});
  std::vector<Part> parts;
  std::vector<Sequence*> chosen;
  for (size_t i = 0; i < running_.size(); ++i) {
    if (counts[i] == 0) continue;
    Sequence& each = *running_[i];
    const size_t done = static_cast<size_t>(session_.length(each.slot));
    parts.push_back({each.slot, std::span(each.ids).subspan(done, static_cast<size_t>(counts[i])),
                     counts[i] == state[i].pending});
    chosen.push_back(&each);
  }
  std::vector<int32_t> tokens(parts.size());
  std::string error;
  const double begin_ns = now_ns();
  try {
    session_.run(parts, tokens);
    account(parts, chosen, now_ns() - begin_ns);
  } catch (const std::exception& thrown) {
    error = thrown.what();
  }
  {
    const std::lock_guard lock(counts_mutex_);
    ++counts_.steps;
    counts_.last_step_s = now_ns() / 1e9;
  }
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!error.empty()) {
      chosen[i]->ids.clear();  // its keys and values are undefined
      end(*chosen[i], Finish::kFailed, {.error = error});
    } else if (parts[i].samples) {
      accept(*chosen[i], tokens[i]);
    }
  }
  std::erase_if(running_, [](const auto& each) { return each->slot < 0; });
}

// After the run, so that a sequence's length is its part's end.
void Engine::account(const std::vector<Part>& parts,
                     const std::vector<Sequence*>& sequences,
                     double ns) {
  std::vector<PartExtent> extents;
  std::vector<Account*> accounts;
  for (size_t i = 0; i < parts.size(); ++i) {
    const int64_t tokens = std::ssize(parts[i].ids);
    extents.push_back({session_.length(parts[i].slot) - tokens, tokens, parts[i].samples});
    accounts.push_back(&sequences[i]->account);
  }
  const StepCost cost = accounting_.add(extents, ns, accounts);
  const std::lock_guard lock(counts_mutex_);
  counts_.cost += cost;
  counts_.mfu = accounting_.mfu();
  counts_.mbu = accounting_.mbu();
}

void Engine::accept(Sequence& sequence, int32_t token) {
  if (token < 0)
    return end(sequence, Finish::kFailed,
               {.error = "[model] expected finite logits, got nan or infinity"});
  Delta delta{.tokens = 1};
  try {
    if (sequence.request.top_logprobs >= 0) delta.scores = {scores(sequence, token)};
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
    sequence.account.prefill_ns = now - sequence.admitted_ns;
    delta.cached_tokens = sequence.cached;
  }
  sequence.last_ns = now;
  const bool is_full =
      sequence.generated() >= sequence.request.max_tokens || session_.room(sequence.slot) < 1;
  if (sequence.text.has_ended() || is_full)
    return end(sequence, sequence.text.has_ended() ? Finish::kStop : Finish::kLength,
               std::move(delta));
  sequence.outbox->put(std::move(delta));
}

TokenScores Engine::scores(const Sequence& sequence, int32_t token) const {
  return score_token(session_.logits(sequence.slot), token, sequence.request.top_logprobs);
}

// Frees the slot, which keeps what it computed for a prompt that begins alike.
void Engine::end(Sequence& sequence, Finish finish, Delta delta) {
  const double now = now_ns();
  const int64_t generated = sequence.generated();
  delta.text += sequence.text.finish();
  delta.finish = finish;
  delta.account = std::make_shared<Account>(finished_account(sequence));
  {
    const std::lock_guard lock(counts_mutex_);
    ++counts_.finished[static_cast<size_t>(finish)];
    if (finish == Finish::kStop || finish == Finish::kLength)
      counts_.end_to_end.observe((now - sequence.submitted_ns) / 1e9);
    if (generated > 1)
      counts_.tpot.observe((sequence.last_ns - sequence.first_ns) / 1e9 /
                           static_cast<double>(generated - 1));
  }
  const bool had_slot = sequence.slot >= 0;
  if (had_slot) {
    Slot& slot = slots_[static_cast<size_t>(sequence.slot)];
    const size_t computed = static_cast<size_t>(session_.length(sequence.slot));
    slot.ids = std::move(sequence.ids);
    slot.ids.resize(std::min(slot.ids.size(), computed));
    slot.is_free = true;
    sequence.slot = -1;
  }
  count_load();
  sequence.outbox->put(std::move(delta));
  const std::lock_guard lock(mutex_);
  if (!had_slot) --queued_;
  --open_;
}

Account Engine::finished_account(const Sequence& sequence) {
  Account account = sequence.account;
  const bool was_admitted = sequence.admitted_ns > 0;
  account.queue_ns = (was_admitted ? sequence.admitted_ns : now_ns()) - sequence.submitted_ns;
  account.cached_tokens = sequence.cached;
  account.later_tokens = std::max<int64_t>(sequence.generated() - 1, 0);
  account.decode_ns = sequence.last_ns - sequence.first_ns;
  return account;
}

void Engine::count_load() {
  int64_t running = 0, held = 0;
  for (const auto& each : running_) {
    if (each->slot < 0) continue;
    ++running;
    held += session_.length(each->slot);
  }
  const std::lock_guard lock(counts_mutex_);
  counts_.running = running;
  counts_.held_positions = held;
}

}  // namespace ridge::serve
