// SPDX-License-Identifier: Apache-2.0
// Sessions under the clock.
#include "serve/experiment.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/random.h"
#include "record/run_counts.h"
#include "serve/phase_plan.h"

namespace ridge::serve {
namespace {

// Prompts of a batch, and the ids behind them.
struct Prompts {
  Prompts(const Experiment& e, int64_t vocabulary) {
    for (int64_t slot = 0; slot < e.batch; ++slot) {
      ids.push_back(random_ids(e.length, vocabulary, static_cast<uint32_t>(slot) + 1));
      slots.push_back(slot);
    }
    for (int64_t slot : slots) prompts.push_back({slot, ids[static_cast<size_t>(slot)], {}});
    tokens.resize(slots.size());
  }
  std::vector<std::vector<int32_t>> ids;
  std::vector<Prompt> prompts;
  std::vector<int64_t> slots;
  std::vector<int32_t> tokens;
};

// Plain and instrumented runs of one thing. `instrument` may be null.
class Measurement {
 public:
  Measurement(Session& session, backends::Instrument* instrument, std::function<void()> once)
      : session_(session), instrument_(instrument), once_(std::move(once)) {}

  void run(const Repeats& repeats) {
    take(true);  // warm-up; it tells which graphs run
    steps_.clear();
    plain_.clear();
    double begin = now_ns();
    for (int64_t i = 0;
         i < repeats.least || (i < repeats.most && now_ns() - begin < repeats.budget_ns); ++i) {
      const int64_t observed = 1 + static_cast<int64_t>(steps_.size());  // the warm-up was one
      const bool may_observe = instrument_ == nullptr || observed < backends::Instrument::kMostRuns;
      take(may_observe && (i % 4 == 1 || i % 4 == 2));
    }
  }

  // The graphs of a run in order; those that follow themselves are repeated.
  std::vector<record::CountedGraph> graphs() const {
    std::vector<record::CountedGraph> graphs;
    for (const SessionRun& each : runs_) {
      const runtime::Stage& stage = each.bucket->program().stage(0);
      if (!graphs.empty() && graphs.back().graph == &stage.graph) {
        ++graphs.back().repeat;
        continue;
      }
      graphs.push_back(runtime::counted(stage));
      graphs.back().name = bucket_title(each.bucket->shape());
    }
    return graphs;
  }

  int64_t arena_bytes() const {
    int64_t most = 0;
    for (const SessionRun& each : runs_)
      most = std::max(most, each.bucket->program().arena_bytes());
    return most;
  }

  const std::vector<record::InstrumentedStep>& steps() const { return steps_; }
  const std::vector<double>& plain() const { return plain_; }

 private:
  void take(bool instrumented) {
    std::vector<SessionRun> runs;
    if (instrument_ != nullptr && !instrumented) instrument_->rest();
    session_.observe(instrumented ? &runs : nullptr);
    double begin = now_ns();
    once_();
    double wall_ns = now_ns() - begin;
    session_.observe(nullptr);
    if (!instrumented) {
      plain_.push_back(wall_ns);
      return;
    }
    record::InstrumentedStep step{{}, wall_ns};
    for (SessionRun& each : runs) {
      step.wall_ns -= each.profile.instrument_ns;
      step.runs.push_back(each.profile);
    }
    steps_.push_back(std::move(step));
    runs_ = std::move(runs);
  }

  Session& session_;
  backends::Instrument* instrument_;
  std::function<void()> once_;
  std::vector<SessionRun> runs_;
  std::vector<record::InstrumentedStep> steps_;
  std::vector<double> plain_;
};

// What is in memory of the file: weights that the store counts as its own where they are read in
// place, pages that go where they are copied.
int64_t resident_weights(const models::ModelFile& file) {
  int64_t bytes = 0;
  for (std::span<const std::byte> part : file.file_parts()) bytes += resident_bytes(part);
  return bytes;
}

record::RunRecord make_record(const Experiment& e,
                              const char* task,
                              const Session& session,
                              const Measurement& measured,
                              const plan::Target& target,
                              const cost::Ceilings* ceilings) {
  record::RunRecord record;
  std::vector<record::CountedGraph> counted = measured.graphs();
  std::vector<record::MeasuredGraph> graphs =
      count_phase(e, session.config(), task, counted, target, ceilings, record);
  record.memory.allocated_bytes = session.store_bytes() + measured.arena_bytes();
  record.plain_wall_ns = record.beside_wall_ns = measured.plain();
  record.clock_ns = record::clock_reading_ns() * 2 * static_cast<double>(record.launches);
  record.step = record::make_step_record(graphs, measured.steps());
  for (const char* module : {"attention", "mlp"})
    record.modules.push_back(record::module_record(module, counted, record.step));
  return record;
}

}  // namespace

SessionOptions session_options(const Experiment& e, int64_t capacity) {
  SessionOptions options;
  options.slots = e.batch;
  options.capacity = capacity;
  options.chunk = e.chunk;
  options.selection = e.selection;
  return options;
}

std::vector<int32_t> random_ids(int64_t count, int64_t vocabulary, uint32_t seed) {
  Random random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids)
    id = static_cast<int32_t>(random.below(static_cast<uint32_t>(vocabulary)));
  return ids;
}

PhaseRecords measure_phases(const models::ModelFile& file,
                            const Experiment& e,
                            backends::Backend& backend,
                            const cost::Ceilings* ceilings) {
  // What an instrument takes for itself is not the run's.
  backend.instrument();
  ProcessMemory before = backend.taken_memory();
  int64_t foreign_bytes =
      before.resident_bytes - (backend.owns_weights() ? 0 : resident_weights(file));
  Session session(file, session_options(e, e.length), backend);
  bool was_reset = reset_peak_memory();
  Prompts p(e, file.config().vocabulary);
  PhaseRecords records;
  auto finish = [&](const char* task, const Measurement& measured) {
    record::RunRecord record = make_record(e, task, session, measured, backend, ceilings);
    record.memory.before = before;
    record.memory.foreign_bytes = foreign_bytes;
    record.memory.after = backend.taken_memory();
    record.memory.peak_was_reset = was_reset;
    return record;
  };
  Measurement prefill(session, backend.instrument(), [&] { p.tokens = session.start(p.prompts); });
  prefill.run(e.repeats);
  records.prefill = finish("prefill", prefill);
  records.prefill.logits = session.logits(e.batch - 1);
  records.prefill.chosen = p.tokens;
  Measurement decode(session, backend.instrument(), [&] {
    for (int64_t slot : p.slots) session.rewind(slot, e.length - 1);
    session.step(p.slots, p.tokens);
  });
  decode.run(e.repeats);
  records.decode = finish("decode", decode);
  return records;
}

record::LatencyRecord measure_latency(const models::ModelFile& file,
                                      const Experiment& e,
                                      int64_t tokens,
                                      backends::Backend& backend) {
  record::LatencyRecord record{e.batch, e.length, tokens, 0, 0, 0, {}, 0};
  double begin = now_ns();
  Session session(file, session_options(e, e.length + tokens - 1), backend);
  record.open_ns = now_ns() - begin;
  Prompts p(e, file.config().vocabulary);
  std::vector<double> steps;
  auto generate = [&] {
    double start = now_ns();
    p.tokens = session.start(p.prompts);
    record.ttft_ns = now_ns() - start;
    for (int64_t i = 1; i < tokens; ++i) {
      double step = now_ns();
      session.step(p.slots, p.tokens);
      steps.push_back(now_ns() - step);
    }
    return now_ns() - start;
  };
  record.first_ns = generate();
  session.start(p.prompts);  // a device records its launches in a graph's second run
  steps.clear();
  record.wall_ns = generate();
  record.tpot = summarize(steps);
  return record;
}

record::CacheGainRecord measure_cache_gain(const models::ModelFile& file,
                                           const Experiment& e,
                                           backends::Backend& backend) {
  record::CacheGainRecord record;
  record.context = e.length;
  Prompts p(e, file.config().vocabulary);
  SessionOptions options = session_options(e, e.length);
  std::vector<float> logits;
  {
    Session session(file, options, backend);
    session.start(p.prompts);
    logits = session.logits(0);
    Measurement decode(session, backend.instrument(), [&] {
      session.rewind(0, e.length - 1);
      session.step(p.slots, p.tokens);
    });
    decode.run(e.repeats);
    record.with = summarize(decode.plain());
    record.cache_bytes = models::cache_bytes(
        file.config(),
        models::contiguous_cache(1, e.length, file.config().window, session.options().chunk),
        e.selection.activations());
  }
  options.cached = false;
  Session session(file, options, backend);
  Measurement whole(session, backend.instrument(), [&] { session.start(p.prompts); });
  whole.run(e.repeats);
  record.without = summarize(whole.plain());
  std::vector<float> other = session.logits(0);
  for (size_t i = 0; i < logits.size(); ++i)
    record.logits_difference =
        std::max(record.logits_difference,
                 std::abs(static_cast<double>(logits[i]) - static_cast<double>(other[i])));
  return record;
}

}  // namespace ridge::serve
