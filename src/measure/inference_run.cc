// SPDX-License-Identifier: Apache-2.0
// Runs sessions and times them.
#include "measure/inference_run.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/clock.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/random.h"

namespace ridge::measure {
namespace {

// The prompts of a batch, with their ids.
struct Prompts {
  Prompts(const InferenceExperiment& e, int64_t vocabulary) {
    for (int64_t slot = 0; slot < e.batch; ++slot) {
      ids.push_back(random_ids(e.length, vocabulary, static_cast<uint32_t>(slot) + 1));
      slots.push_back(slot);
    }
    for (int64_t slot : slots) prompts.push_back({slot, ids[static_cast<size_t>(slot)], {}});
    tokens.resize(slots.size());
  }
  std::vector<std::vector<int32_t>> ids;
  std::vector<serve::Prompt> prompts;
  std::vector<int64_t> slots;
  std::vector<int32_t> tokens;
};

constexpr int64_t kLeastPlain = 6;  // with fewer, an interval covers less than 95%

// Repeats one operation of a session, and notes which graphs its last profiled run used.
class Repetition {
 public:
  Repetition(serve::Session& session, backends::Backend& backend, std::function<void()> once)
      : session_(session), runs_(backend, {once, [this, once] { return profiled(once); }}) {}
  Repetition(const Repetition&) = delete;
  Repetition& operator=(const Repetition&) = delete;

  // Returns false if the experiment was stopped.
  bool run(const InferenceExperiment& e) { return runs_.run(e.repeats, e.is_stopped); }

  // The graphs of a run in order. Consecutive runs of one graph are merged into its repeat count.
  std::vector<cost::ProgramGraph> graphs() const {
    std::vector<cost::ProgramGraph> graphs;
    for (const serve::Bucket* bucket : buckets_) {
      const cost::ProgramGraph& graph = bucket->program().graph(0);
      if (!graphs.empty() && graphs.back().costed == graph.costed)
        ++graphs.back().repeat;
      else
        graphs.push_back(graph);
    }
    return graphs;
  }

  const RepeatedRuns& runs() const { return runs_; }

 private:
  std::vector<record::ProfiledRun> profiled(const std::function<void()>& once) {
    std::vector<serve::SessionRun> observed;
    session_.runner().observe(&observed);
    once();
    session_.runner().observe(nullptr);
    buckets_.clear();
    std::vector<record::ProfiledRun> profiles;
    for (serve::SessionRun& each : observed) {
      profiles.push_back(std::move(each.profile));
      buckets_.push_back(each.bucket);
    }
    return profiles;
  }

  serve::Session& session_;
  std::vector<const serve::Bucket*> buckets_;  // the last profiled run used them
  RepeatedRuns runs_;
};

// Bytes of the file's weights that are resident. The store counts them as its own if they are read
// in place; if they are copied, their pages are released.
int64_t resident_weights(const models::ModelFile& file) {
  int64_t bytes = 0;
  for (std::span<const std::byte> part : file.file_parts()) bytes += resident_bytes(part);
  return bytes;
}

record::RunRecord make_record(const InferenceExperiment& e,
                              const char* task,
                              const serve::Session& session,
                              const Repetition& runs,
                              const cost::Ceilings* ceilings) {
  record::RunRecord record = serve::begin_phase(e, task, session.config());
  const std::vector<record::PredictedGraph> graphs =
      serve::count_phase(runs.graphs(), ceilings, record);
  record.memory.allocated_bytes = session.runner().owned_bytes();
  record.counts = runs.runs().counts();
  runs.runs().measurement().fill(graphs, record);
  for (const char* module : {"attention", "mlp"})
    record.modules.push_back(record::module_record(module, graphs, record.step));
  return record;
}

}  // namespace

std::vector<int32_t> random_ids(int64_t count, int64_t vocabulary, uint32_t seed) {
  Random random(seed);
  std::vector<int32_t> ids(static_cast<size_t>(count));
  for (int32_t& id : ids)
    id = static_cast<int32_t>(random.below(static_cast<uint32_t>(vocabulary)));
  return ids;
}

std::optional<record::PhaseRecords> measure_phases(const models::ModelFile& file,
                                                   const InferenceExperiment& e,
                                                   backends::Backend& backend,
                                                   const cost::Ceilings* ceilings) {
  // Create the instrument first, so that its memory does not count as the run's.
  backend.instrument();
  ProcessMemory before = backend.taken_memory();
  int64_t foreign_bytes =
      before.resident_bytes - (backend.owns_weights() ? 0 : resident_weights(file));
  serve::Session session(file, serve::session_options(e, e.length), backend);
  bool was_reset = reset_peak_memory();
  Prompts p(e, file.config().vocabulary);
  record::PhaseRecords records;
  auto finish = [&](const char* task, const Repetition& runs) {
    record::RunRecord record = make_record(e, task, session, runs, ceilings);
    record.memory.before = before;
    record.memory.foreign_bytes = foreign_bytes;
    record.memory.after = backend.taken_memory();
    record.memory.peak_was_reset = was_reset;
    return record;
  };
  Repetition prefill(session, backend, [&] { p.tokens = session.start(p.prompts); });
  if (!prefill.run(e)) return std::nullopt;
  records.prefill = finish("prefill", prefill);
  records.prefill.logits = session.logits(e.batch - 1);
  records.prefill.chosen = p.tokens;
  Repetition decode(session, backend, [&] {
    for (int64_t slot : p.slots) session.rewind(slot, e.length - 1);
    session.step(p.slots, p.tokens);
  });
  if (!decode.run(e)) return std::nullopt;
  records.decode = finish("decode", decode);
  return records;
}

std::optional<record::LatencyRecord> measure_latency(const models::ModelFile& file,
                                                     const InferenceExperiment& e,
                                                     int64_t tokens,
                                                     backends::Backend& backend) {
  record::LatencyRecord record{e.batch, e.length, tokens, 0, 0, 0, {}, 0};
  double begin = now_ns();
  serve::Session session(file, serve::session_options(e, e.length + tokens - 1), backend);
  record.open_ns = now_ns() - begin;
  Prompts p(e, file.config().vocabulary);
  std::vector<double> steps;
  auto generate = [&] {
    double start = now_ns();
    p.tokens = session.start(p.prompts);
    record.ttft_ns = now_ns() - start;
    for (int64_t i = 1; i < tokens && !e.is_stopped(); ++i) {
      double step = now_ns();
      session.step(p.slots, p.tokens);
      steps.push_back(now_ns() - step);
    }
    return now_ns() - start;
  };
  record.first_ns = generate();
  if (e.is_stopped()) return std::nullopt;
  session.start(p.prompts);  // a device records its launches in a graph's second run
  steps.clear();
  record.wall_ns = generate();
  if (e.is_stopped()) return std::nullopt;
  record.tpot = summarize(steps);
  return record;
}

namespace {

// A session that computes one token again and again, and the times.
struct Timed {
  Timed(const models::ModelFile& file,
        const serve::SessionOptions& options,
        backends::Backend& backend)
      : session(file, options, backend) {}
  void run_once() {
    if (before) before();
    const double begin = now_ns();
    once();
    samples.push_back(now_ns() - begin);
  }

  serve::Session session;
  std::function<void()> before;  // not timed; may be empty
  std::function<void()> once;
  std::vector<double> samples;
};

// Runs all of them interleaved, so that a disturbance of the machine affects each of them. The
// first two runs are a warm-up: a device records its launches in a graph's second run. Returns
// false if the experiment was stopped.
bool run_interleaved(const std::vector<Timed*>& all, const InferenceExperiment& e) {
  constexpr int64_t kWarmup = 2;
  double begin = 0;
  for (int64_t i = -kWarmup;
       i < kLeastPlain ||
       (i < e.repeats.most && !e.repeats.any(now_ns() - begin >= e.repeats.budget_ns));
       ++i) {
    if (i == 0) {
      begin = now_ns();
      for (Timed* each : all) each->samples.clear();
    }
    for (Timed* each : all) {
      if (e.is_stopped()) return false;
      each->run_once();
    }
  }
  return true;
}

}  // namespace

std::optional<record::CacheGainRecord> measure_cache_gain(const models::ModelFile& file,
                                                          const InferenceExperiment& e,
                                                          backends::Backend& backend) {
  record::CacheGainRecord record;
  record.context = e.length;
  if (backend.instrument() != nullptr) backend.instrument()->rest();
  Prompts p(e, file.config().vocabulary);
  serve::SessionOptions options = serve::session_options(e, e.length);
  // Each session may copy the weights; the factor leaves half of the memory to other programs.
  const bool fit = !e.repeats.any(4 * file.weight_bytes() >= backend.available_bytes());
  std::optional<Timed> with, without;
  with.emplace(file, options, backend);
  with->session.start(p.prompts);
  const std::vector<float> logits = with->session.logits(0);
  with->once = [&] {
    with->session.rewind(0, e.length - 1);
    with->session.step(p.slots, p.tokens);
  };
  with->before = with->once;  // a token follows a token, whose weights the caches hold
  if (!fit && !run_interleaved({&*with}, e)) return std::nullopt;
  record.cache_bytes =
      models::cache_bytes(file.config(), serve::cache_of(with->session.options(), file.config()));
  if (!fit) {
    record.with = summarize(with->samples);
    with.reset();
  }
  options.cached = false;
  without.emplace(file, options, backend);
  without->once = [&] { without->session.start(p.prompts); };
  std::vector<Timed*> interleaved{&*without};
  if (with) interleaved.insert(interleaved.begin(), &*with);
  if (!run_interleaved(interleaved, e)) return std::nullopt;
  if (with) record.with = summarize(with->samples);
  record.without = summarize(without->samples);
  const std::vector<float> other = without->session.logits(0);
  for (size_t i = 0; i < logits.size(); ++i)
    record.logits_difference =
        std::max(record.logits_difference,
                 std::abs(static_cast<double>(logits[i]) - static_cast<double>(other[i])));
  return record;
}

}  // namespace ridge::measure
