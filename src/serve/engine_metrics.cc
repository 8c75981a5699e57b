// SPDX-License-Identifier: Apache-2.0
// Counts under a lock, which is never held while a step runs.
#include "serve/engine_metrics.h"

#include <algorithm>
#include <vector>

#include "base/clock.h"

namespace ridge::serve {

EngineMetrics::EngineMetrics(const Session& session, std::shared_ptr<const cost::Ceilings> ceilings)
    : blocks_(session.blocks()), log_(blocks_.blocks()), accounting_(session, std::move(ceilings)) {
  counts_.slots = session.options().slots;
  counts_.blocks = blocks_.blocks();
}

EngineCounts EngineMetrics::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void EngineMetrics::increment(int64_t EngineCounts::*counter) {
  const std::lock_guard lock(mutex_);
  ++(counts_.*counter);
}

void EngineMetrics::admitted(EngineSequence& sequence) {
  const double now = now_ns();
  const int64_t cached = blocks_.cached_tokens(sequence.slot);
  log_.admit(sequence.log_index, cached, now);
  if (sequence.was_admitted) return;
  sequence.was_admitted = true;
  sequence.admitted_ns = now;
  sequence.cached_tokens = cached;
  const std::lock_guard lock(mutex_);
  counts_.queue.observe((sequence.admitted_ns - sequence.submitted_ns) / 1e9);
  counts_.prompt_tokens += std::ssize(sequence.request.prompt);
  counts_.cached_tokens += sequence.cached_tokens;
}

void EngineMetrics::requeued(const EngineSequence& sequence) {
  log_.requeue(sequence.log_index, now_ns());
}

void EngineMetrics::generated(EngineSequence& sequence) {
  const double now = now_ns();
  const bool is_first = sequence.generated() == 1;
  {
    const std::lock_guard lock(mutex_);
    ++counts_.generated_tokens;
    Histogram& histogram = is_first ? counts_.ttft : counts_.inter_token;
    histogram.observe((now - (is_first ? sequence.submitted_ns : sequence.last_ns)) / 1e9);
  }
  if (is_first) {
    sequence.first_ns = now;
    sequence.metrics.prefill_ns = now - sequence.admitted_ns;
  }
  sequence.last_ns = now;
  log_.token(sequence.log_index, now);
}

// The caller has locked the counts, also below.
void EngineMetrics::count_end(const EngineSequence& sequence, Finish finish, double now) {
  ++counts_.finished[static_cast<size_t>(finish)];
  if (finish == Finish::kStop || finish == Finish::kLength)
    counts_.end_to_end.observe((now - sequence.submitted_ns) / 1e9);
  if (const int64_t generated = sequence.generated(); generated > 1)
    counts_.tpot.observe((sequence.last_ns - sequence.first_ns) / 1e9 /
                         static_cast<double>(generated - 1));
}

void EngineMetrics::set_load(int64_t running) {
  counts_.running = running;
  counts_.blocks_in_use = blocks_.in_use();
}

void EngineMetrics::count_load(int64_t running) {
  {
    const std::lock_guard lock(mutex_);
    set_load(running);
  }
  log_.blocks(blocks_, running == 0, now_ns());
}

void EngineMetrics::add_cost(const LaunchedStep& step, LoggedStep& logged) {
  std::vector<RequestMetrics*> metrics;
  int64_t discarded = 0;
  for (size_t i = 0; i < step.parts.size(); ++i) {
    EngineSequence* each = step.sequences[i];
    metrics.push_back(each == nullptr ? nullptr : &each->metrics);
    const int64_t tokens = step.parts[i].tokens;
    const bool decodes = each != nullptr && tokens == 1 && each->generated() > 0;
    (each == nullptr ? discarded
     : decodes       ? logged.decode_tokens
                     : logged.prefill_tokens) += tokens;
  }
  logged.cost = accounting_.add(*step.bucket, step.parts, logged.end_ns - logged.begin_ns, metrics);
  logged.product_type = accounting_.product_type();
  const std::lock_guard lock(mutex_);
  counts_.cost += logged.cost;
  counts_.discarded_tokens += discarded;
  counts_.discarded_cost = accounting_.discarded_cost();
  counts_.mfu = accounting_.mfu();
  counts_.mbu = accounting_.mbu();
}

void EngineMetrics::stepped(const LoggedStep& step) {
  log_.step(step);
  const std::lock_guard lock(mutex_);
  ++counts_.steps;
  counts_.last_step_s = step.end_ns / 1e9;
}

}  // namespace ridge::serve
