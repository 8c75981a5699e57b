// SPDX-License-Identifier: Apache-2.0
// Runs the session and sums up what its graphs multiply and read.
#include "bench/model_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "backends/cpu/calibration/calibration.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/process_memory.h"
#include "base/split.h"
#include "base/timed_work.h"
#include "bench/attention_choice.h"
#include "cost/rate_limits.h"
#include "measure/inference_run.h"
#include "models/cache_shape.h"

namespace ridge::bench {
namespace {

double median_of_reads_ns(const std::function<void()>& read) {
  constexpr int kReads = 5;
  std::vector<double> ns;
  for (int i = 0; i < kReads; ++i) ns.push_back(timed_ns(read));
  return summarize(ns).median;
}

// A repeat is compared with the reads just before and just after it.
void add_shares_of(const std::vector<double>& read_rates, record::ModelTrial& trial) {
  const double bytes_per_token = trial.shares.bytes_per_ns / trial.summary().median;
  std::vector<double> shares;
  for (size_t i = 0; i < trial.rates.size(); ++i)
    shares.push_back(trial.rates[i] * bytes_per_token * 2 / (read_rates[i] + read_rates[i + 1]));
  trial.beside_bytes_per_ns = summarize(read_rates).median;
  trial.of_beside = summarize(shares).median;
}

record::KernelTimes kernel_times(std::string what, const serve::SessionRun& run) {
  const Graph& graph = run.bucket->program().graph(0).graph();
  record::KernelTimes times{std::move(what), {}, 0, run.profile.wall_ns};
  std::map<std::string, record::KernelTimes::Operation> sums;
  double ended_ns = 0;
  for (const record::Span& span : run.profile.spans) {
    const Node& node = graph.node(span.node);
    std::string name = node.op->name;
    if (node.inputs.size() > 1 && graph.value(node.inputs[1]).storage == Storage::kParameter)
      name += " by " + graph.shape(node.inputs[1]).str();
    record::KernelTimes::Operation& sum = sums[name];
    const double exclusive_ns = std::max(0.0, span.end_ns - std::max(span.begin_ns, ended_ns));
    sum.name = name;
    ++sum.kernels;
    sum.ns += exclusive_ns;
    times.kernel_ns += exclusive_ns;
    ended_ns = std::max(ended_ns, span.end_ns);
  }
  for (auto& [name, sum] : sums) times.operations.push_back(std::move(sum));
  std::ranges::stable_sort(times.operations, std::ranges::greater(),
                           &record::KernelTimes::Operation::ns);
  return times;
}

constexpr int64_t kMostRepeats = 10'000;

std::vector<int64_t> sizes(const std::string& text, const char* option) {
  return text == "0" ? std::vector<int64_t>() : parse_sizes(text, option);
}

// The positions that the longest of the trials needs.
int64_t most_positions(const std::vector<int64_t>& prompts,
                       const std::vector<int64_t>& generated,
                       int64_t depth) {
  int64_t most = 1;
  for (int64_t each : prompts) most = std::max(most, each);
  for (int64_t each : generated) {
    if (__builtin_add_overflow(each, depth, &each)) each = std::numeric_limits<int64_t>::max();
    most = std::max(most, each);
  }
  return most;
}

void describe(const ModelBenchSetup& o,
              const serve::OpenModel& model,
              record::ModelBenchRecord& made) {
  const serve::SessionOptions& session = model.session->options();
  made.setting = backends::make_setting(model.file.path().stem().string(), o.inference.machine,
                                        session.selection, o.inference.level.switches);
  made.setting.batch_size = o.trials.batch;
  made.setting.cache_dtype = serve::cache_dtype_name(*session.cache_dtype);
  made.format = format_name(model.file);
  made.size_bytes = model.file.weight_bytes();
  made.parameters = model.file.config().parameters();
  made.activations = o.inference.exact ? "exact" : o.inference.fast_8bit ? "8 bits" : "fast";
  made.owned_bytes = model.session->runner().owned_bytes();
}

}  // namespace

ModelBench::ModelBench(const models::ModelFile& file,
                       serve::Session& session,
                       const cost::Ceilings& ceilings,
                       const ModelBenchOptions& options)
    : file_(file), session_(session), ceilings_(ceilings), o_(options) {}

record::ModelTrial ModelBench::time_prefill(int64_t tokens) {
  return trial({.name = fmt::format("pp{}", tokens), .tokens = tokens},
               [&] { return prefill(tokens); });
}

record::ModelTrial ModelBench::time_decode(int64_t tokens) {
  const std::string depth = o_.depth > 0 ? fmt::format(" @ d{}", o_.depth) : "";
  return trial({.name = fmt::format("tg{}{}", tokens, depth),
                .tokens = tokens,
                .is_decode = true,
                .beside_bytes = interleaved_read_bytes()},
               [&] { return decode(tokens); });
}

record::ModelTrial ModelBench::trial(record::ModelTrial trial,
                                     const std::function<double()>& once) {
  const auto tokens = static_cast<double>(trial.tokens * o_.batch);
  const std::function<void()> read =
      trial.beside_bytes > 0 ? backends::cpu::memory_reader(trial.beside_bytes) : nullptr;
  once();
  once();
  std::vector<double> read_rates;  // before, between and after the repeats
  const auto measure_read = [&] {
    if (read)
      read_rates.push_back(static_cast<double>(trial.beside_bytes) / median_of_reads_ns(read));
  };
  measure_read();
  for (int64_t i = 0; i < o_.repeats; ++i) {
    trial.rates.push_back(tokens * 1e9 / once());
    measure_read();
  }
  record::RatedWork work = counted(once);
  if (trial.is_decode) work.cache_bytes = decoded_cache_bytes(trial.tokens);
  work.ns = tokens * 1e9 / trial.summary().median;
  trial.shares = record::rate_shares(work, ceilings_);
  std::ranges::copy(record::beaten_ceilings(trial.name, work, ceilings_),
                    std::back_inserter(beaten_));
  if (read) add_shares_of(read_rates, trial);
  return trial;
}

// The bytes that are read to measure the bandwidth between decodes: as many as the weights, within
// limits. 0 if none are to be read, or if they are not clear of the caches.
int64_t ModelBench::interleaved_read_bytes() const {
  constexpr int64_t kMost = int64_t{512} << 20;
  const int64_t weights = file_.weight_bytes();
  if (!o_.reads_memory) return 0;
  for (const cost::MemoryLevel& level : ceilings_.levels)
    if (level.name != "memory" && weights < 2 * level.capacity_bytes) return 0;
  const int64_t bytes = std::min(weights, kMost);
  return bytes <= available_memory_bytes() / 4 ? bytes : 0;
}

// Sums what the timed part of `once` multiplies and reads, from the graphs that it runs.
record::RatedWork ModelBench::counted(const std::function<double()>& once) {
  session_.runner().observe(&runs_);
  once();
  session_.runner().observe(nullptr);
  std::map<const serve::Bucket*, int64_t> counts;
  for (const serve::SessionRun& run : runs_) ++counts[run.bucket];
  record::RatedWork work;
  for (const auto& [bucket, count] : counts) {
    const cost::TypedAmounts each = cost::typed_amounts(*bucket->program().graph(0).costed);
    work.amounts += cost::times(count, each);
    work.weight_bytes = std::max(work.weight_bytes, each.all_weight_bytes());
  }
  return work;
}

// The attended KV entries of the timed steps of decode().
int64_t ModelBench::decoded_cache_bytes(int64_t tokens) const {
  int64_t bytes = 0;
  for (int64_t i = 0; i < tokens; ++i)
    bytes += o_.batch * models::seen_bytes(file_.config(), o_.depth + i + 1,
                                           *session_.options().cache_dtype,
                                           session_.runner().cache().ranks);
  return bytes;
}

std::vector<int64_t> ModelBench::slots() const {
  std::vector<int64_t> slots;
  for (int64_t slot = 0; slot < o_.batch; ++slot) slots.push_back(slot);
  return slots;
}

std::vector<int32_t> ModelBench::start(int64_t tokens) {
  std::vector<std::vector<int32_t>> ids;
  std::vector<serve::Prompt> prompts;
  for (int64_t slot : slots())
    ids.push_back(
        measure::random_ids(tokens, file_.config().vocabulary, static_cast<uint32_t>(slot) + 1));
  for (int64_t slot : slots()) prompts.push_back({slot, ids[static_cast<size_t>(slot)], {}});
  runs_.clear();
  first_.clear();
  begin_ns_ = now_ns();
  return session_.start(prompts);
}

// The first tokens after the KV entries of the depth. Entries that an earlier call left are kept.
std::vector<int32_t> ModelBench::start_at_depth() {
  const int64_t depth = std::max<int64_t>(o_.depth, 1);
  const bool are_held =
      !first_.empty() && o_.depth > 0 && std::ranges::all_of(slots(), [&](int64_t slot) {
        return session_.reusable(slot, depth) == depth;
      });
  if (!are_held)
    first_ = start(depth);
  else
    for (int64_t slot : slots()) session_.rewind(slot, depth);
  return first_;
}

double ModelBench::prefill(int64_t tokens) {
  start(tokens);
  return now_ns() - begin_ns_;
}

// Decodes each token by itself, including the first.
double ModelBench::decode(int64_t tokens) {
  std::vector<int32_t> last = start_at_depth();
  const std::vector<int64_t> all = slots();
  if (o_.depth > 0) runs_.clear(), begin_ns_ = now_ns();
  for (int64_t i = o_.depth > 0 ? 0 : 1; i < tokens; ++i) session_.step(all, last);
  return now_ns() - begin_ns_;
}

serve::SessionRun ModelBench::last_run(const std::function<void()>& run) {
  std::vector<serve::SessionRun> runs;
  session_.runner().observe(&runs);
  for (int i = 0; i < 3; ++i) run();
  session_.runner().observe(nullptr);
  return std::move(runs.back());
}

record::KernelTimes ModelBench::prefill_kernels(int64_t tokens) {
  const int64_t chunk = session_.options().chunk, last = (tokens - 1) % chunk + 1;
  return kernel_times(tokens <= chunk
                          ? fmt::format("the last run of a {}-token prompt", tokens)
                          : fmt::format("the last {} of {} prompt tokens", last, tokens),
                      last_run([&] { start(tokens); }));
}

record::KernelTimes ModelBench::decode_kernels() {
  std::vector<int32_t> last = start_at_depth();
  const std::vector<int64_t> all = slots();
  return kernel_times("a decode step", last_run([&] { session_.step(all, last); }));
}

record::ModelBenchRecord bench_model(const ModelBenchSetup& o,
                                     const std::function<cost::Ceilings()>& ceilings,
                                     const measure::CeilingsNote& note) {
  const std::vector<int64_t> prompts = sizes(o.prompts, "prompt-tokens");
  const std::vector<int64_t> generated = sizes(o.generated, "tokens");
  ModelBenchOptions trials = o.trials;
  if (prompts.empty() && generated.empty())
    throw usage_error("[bench] expected -p or -n above 0, got 0 for both");
  if (trials.repeats < 1 || trials.repeats > kMostRepeats)
    throw usage_error("[repeats] expected 1 to {}, got {}", kMostRepeats, trials.repeats);
  if (trials.batch < 1 || trials.batch > serve::kMostSlots)
    throw usage_error("[batch-size] expected 1 to {}, got {}", serve::kMostSlots, trials.batch);
  if (trials.depth < 0) throw usage_error("[depth] expected at least 0, got {}", trials.depth);
  record::ModelBenchRecord made;
  double begin = now_ns();
  models::ModelFile file = serve::open_model_file(o.inference);
  made.read_ns = now_ns() - begin;
  const int64_t most = most_positions(prompts, generated, trials.depth);
  if (most > file.config().context)
    throw usage_error("[bench] expected at most {} positions, the model's context, got {}",
                      file.config().context, most);
  const serve::SessionNeeds needs{.positions = most, .slots = trials.batch};
  const auto inference = with_attention(o.inference, file.config(), needs);
  begin = now_ns();
  const auto model = serve::open_model(std::move(file), inference, needs);
  made.open_ns = now_ns() - begin;
  made.ceilings = ceilings();
  trials.reads_memory = !backends::is_gpu(o.inference.machine);
  ModelBench bench(model->file, *model->session, made.ceilings, trials);
  made.first_token_ns = bench.prefill(1);
  for (int64_t each : prompts) made.trials.push_back(bench.time_prefill(each));
  for (int64_t each : generated) made.trials.push_back(bench.time_decode(each));
  for (const record::BeatenCeiling& each : bench.beaten())
    note(fmt::format("warning: {}, so that is raised for the next run", each.str()));
  if (!bench.beaten().empty()) measure::keep_ceilings(raised(made.ceilings, bench.beaten()), note);
  describe(o, *model, made);
  if (!o.operations) return made;
  for (int64_t each : prompts) made.kernels.push_back(bench.prefill_kernels(each));
  if (!generated.empty()) made.kernels.push_back(bench.decode_kernels());
  return made;
}

}  // namespace ridge::bench
