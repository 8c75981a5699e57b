// SPDX-License-Identifier: Apache-2.0
// Measures part by part while the time lasts.
#include "bench/inference_lab.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/clock.h"
#include "base/error.h"
#include "base/split.h"
#include "bench/attention_trial.h"
#include "bench/ceiling_check.h"
#include "bench/extents.h"
#include "measure/machine_ceilings.h"
#include "record/inference_record.h"

namespace ridge::bench {
namespace {

// The share of the study's time at which each part must end.
constexpr double kPhasesEnd = 0.45, kGainsEnd = 0.55, kLatenciesEnd = 0.8, kAttentionEnd = 1;
constexpr int64_t kMostLength = int64_t{1} << 20;

void expect_context(const models::ModelFile& file, const char* option, int64_t length) {
  if (length > file.config().context)
    throw usage_error("[{}] expected at most {} positions, the model's context, got {}", option,
                      file.config().context, length);
}

// Prefills come first, then decodes, each in the order in which they ran.
void sort_runs(record::LabRecord& lab) {
  std::vector<size_t> order;
  for (const char* task : {"prefill", "decode"})
    for (size_t i = 0; i < lab.runs.size(); ++i)
      if (lab.runs[i].setting.task == task) order.push_back(i);
  std::vector<record::RunRecord> sorted;
  for (size_t i : order) sorted.push_back(std::move(lab.runs[i]));
  for (size_t& index : lab.detailed)
    index = static_cast<size_t>(std::find(order.begin(), order.end(), index) - order.begin());
  lab.runs = std::move(sorted);
}

std::vector<int64_t> parse_attention_lengths(const std::string& text) {
  std::vector<int64_t> lengths = parse_sizes(text, "attention-seq-len");
  for (int64_t length : lengths)
    if (length > kMostLength)
      throw usage_error("[attention-seq-len] expected at most {}, got {}", kMostLength, length);
  return lengths;
}

// The positions of a sequence in the latency check.
int64_t checked_latency_length(const InferenceLabOptions& o) {
  if (!(o.seconds >= 1 && o.seconds <= 1e6))
    throw usage_error("[seconds] expected 1 to 1000000, got {:g}", o.seconds);
  if (o.prompt < 1 || o.tokens < 2)
    throw usage_error(
        "[tokens] expected --prompt-tokens of at least 1 and --tokens of at least 2, got {} and {}",
        o.prompt, o.tokens);
  int64_t length = 0;
  return __builtin_add_overflow(o.prompt, o.tokens - 1, &length) ? kMostLength + 1 : length;
}

// Raises the ceilings that the runs beat, and adds warnings of times that are inconsistent.
void check(record::InferenceRecord& study) {
  record::LabRecord& lab = study.lab;
  const auto warn = [&](const std::string& note) { lab.warnings.push_back(note); };
  if (raise_ceilings(lab)) measure::keep_ceilings(*lab.ceilings, warn);
  for (const record::RunRecord& each : lab.runs) record::check_consistency(each, lab);
  record::check_consistency(study);
}

}  // namespace

InferenceLab::InferenceLab(const serve::InferenceOptions& inference,
                           const InferenceLabOptions& o,
                           record::InferenceRecord& study)
    : inference_(inference), o_(o), study_(study) {
  const double begin = now_ns();
  file_ = serve::open_model_file(inference);
  study.open_ns = now_ns() - begin;
  study.file = format_name(file_);
  study.file_bytes = file_.weight_bytes();
  levels_ = passes::parse_levels(o.levels, "level");
  batches_ = parse_sizes(o.batch_sizes, "batch-size");
  lengths_ =
      o.lengths.empty() ? usual_lengths(file_.config().context) : parse_sizes(o.lengths, "seq-len");
  latency_batches_ = parse_sizes(o.latency_batches, "latency-batch-size");
  attention_lengths_ = parse_attention_lengths(o.attention_lengths);
  for (int64_t length : lengths_) expect_context(file_, "seq-len", length);
  const int64_t latency_length = checked_latency_length(o);
  expect_context(file_, "prompt-tokens and tokens", latency_length);
  for (const std::string& level : levels_) inference.selection(level);
  backend_ = backends::make_backend(inference.machine, inference.selection(levels_.back()));
  passes::expect_effect(inference.level.switches, passes::Serves::kInference, *backend_);
  const int64_t longest = *std::max_element(lengths_.begin(), lengths_.end());
  for (int64_t batch : batches_) expect_cache("batch-size", batch, longest);
  for (int64_t batch : latency_batches_) expect_cache("latency-batch-size", batch, latency_length);
}

void InferenceLab::expect_cache(const char* option, int64_t batch, int64_t length) const {
  if (batch > serve::kMostSlots)
    throw usage_error("[{}] expected at most {} sequences, got {}", option, serve::kMostSlots,
                      batch);
  serve::SessionOptions session;
  session.slots = batch;
  session.capacity = length;
  session.chunk = inference_.chosen_chunk();
  session.selection = inference_.selection(levels_.back());
  session.cache_dtype = inference_.chosen_cache_dtype(session.selection);
  serve::expect_cache_fits(file_.config(), session, *backend_);
}

measure::InferenceExperiment InferenceLab::experiment(const std::string& level,
                                                      int64_t batch,
                                                      int64_t length) const {
  measure::InferenceExperiment e;
  e.selection = inference_.selection(level);
  e.setting = backends::make_setting(std::filesystem::path(inference_.model).stem().string(),
                                     inference_.machine, e.selection, inference_.level.switches);
  e.batch = batch;
  e.length = length;
  e.chunk = inference_.chosen_chunk();
  e.cache_dtype = inference_.chosen_cache_dtype(e.selection);
  e.rank = inference_.rank;
  e.repeats = {4, 40, 1e7 * o_.seconds, listener_.any};  // a hundred measurements share the time
  e.is_stopped = listener_.is_stopped;
  return e;
}

void InferenceLab::run(const InferenceLabListener& listener) {
  listener_ = listener;
  begin_ns_ = now_ns();
  measure_phases();
  if (study_.lab.runs.empty()) return;
  measure_gains();
  measure_latencies();
  measure_attention();
  if (listener_.is_stopped()) study_.lab.warnings.push_back("Ctrl-C ended this lab early");
  check(study_);
}

void InferenceLab::announce(const std::string& what) const {
  listener_.announce(what, now_ns() - begin_ns_);
}

// Whether no Ctrl-C came, before or within a part of the study; if one did, the part is left out.
bool InferenceLab::continues(const std::string& what) {
  if (listener_.is_stopped()) study_.left_out.push_back(what + ": Ctrl-C ended the lab");
  return !listener_.is_stopped();
}

// Whether work on this many tokens, at the rate of the last prefill, would end before `share` of
// the time has passed.
bool InferenceLab::allows(double share, double tokens, const std::string& what) {
  if (!continues(what)) return false;
  double needed_ns = tokens * ns_per_token_,
         left_ns = share * o_.seconds * 1e9 - (now_ns() - begin_ns_);
  if (!listener_.any(needed_ns > left_ns)) return true;
  study_.left_out.push_back(
      fmt::format("{}: needs about {:.0f} s, but {:.0f} s are left (--seconds)", what,
                  needed_ns / 1e9, std::max(left_ns, 0.0) / 1e9));
  return false;
}

// Every level runs at the first batch and length, the last level at all others.
void InferenceLab::measure_phases() {
  for (int64_t length : lengths_)
    for (int64_t batch : batches_) {
      bool is_first = batch == batches_[0] && length == lengths_[0];
      for (const std::string& level : levels_) {
        if (!is_first && level != levels_.back()) continue;
        std::string what =
            fmt::format("prefill and decode, {}, batch {}, length {}", level, batch, length);
        if (is_first ? !continues(what)
                     : !allows(kPhasesEnd, 6.0 * static_cast<double>(batch * length), what))
          continue;
        announce(what);
        // The operations of the last level are reported; of the last that ran, after a Ctrl-C.
        if (add_phases(level, batch, length, what) && is_first)
          study_.lab.detailed = {study_.lab.runs.size() - 2, study_.lab.runs.size() - 1};
      }
    }
  sort_runs(study_.lab);
}

// Returns false if a Ctrl-C came.
bool InferenceLab::add_phases(const std::string& level,
                              int64_t batch,
                              int64_t length,
                              const std::string& what) {
  // The backend depends on the level too: capture, for example.
  std::unique_ptr<backends::Backend> of_level;
  if (level != levels_.back())
    of_level = backends::make_backend(inference_.machine, inference_.selection(level));
  std::optional<record::PhaseRecords> phases =
      measure::measure_phases(file_, experiment(level, batch, length),
                              of_level ? *of_level : *backend_, study_.lab.limits());
  if (!phases) return continues(what);
  ns_per_token_ = phases->prefill.wall().median / static_cast<double>(batch * length);
  decode_ns_ = phases->decode.wall().median / static_cast<double>(batch);
  study_.lab.runs.push_back(std::move(phases->prefill));
  study_.lab.runs.push_back(std::move(phases->decode));
  return true;
}

void InferenceLab::measure_gains() {
  for (int64_t length : lengths_) {
    std::string what = fmt::format("with and without the KV cache, length {}", length);
    if (!allows(kGainsEnd, 8.0 * static_cast<double>(length), what)) continue;
    announce(what);
    if (auto gain =
            measure::measure_cache_gain(file_, experiment(levels_.back(), 1, length), *backend_))
      study_.gains.push_back(std::move(*gain));
    else
      continues(what);
  }
}

void InferenceLab::measure_latencies() {
  for (int64_t batch : latency_batches_) {
    std::string what =
        fmt::format("latency, batch {}: {} tokens after {}", batch, o_.tokens, o_.prompt);
    double prompts = 2.0 * static_cast<double>(batch * o_.prompt);
    double generated =
        2.0 * static_cast<double>(batch * o_.tokens) * decode_ns_ / std::max(ns_per_token_, 1.0);
    if (!allows(kLatenciesEnd, prompts + generated, what)) continue;
    announce(what);
    if (auto latency = measure::measure_latency(file_, experiment(levels_.back(), batch, o_.prompt),
                                                o_.tokens, *backend_))
      study_.latencies.push_back(std::move(*latency));
    else
      continues(what);
  }
}

void InferenceLab::measure_attention() {
  const int64_t memory = study_.lab.ceilings->machine.memory_bytes;
  for (int64_t head_size : {int64_t{64}, int64_t{128}}) {
    for (int64_t length : attention_lengths_) {
      std::string what = fmt::format("attention, head size {}, length {}", head_size, length);
      if (!continues(what)) continue;
      announce(what);
      double left_ns = kAttentionEnd * o_.seconds * 1e9 - (now_ns() - begin_ns_);
      // The other half of the free memory is for other programs.
      AttentionLimits limits{backend_->available_bytes() / 2, std::max(left_ns / 4, 1e6),
                             2e6 * o_.seconds};
      study_.attention.push_back(
          try_attention({1, head_size, length}, limits, *backend_, study_.lab.limits()));
    }
    if (memory > 0 && !listener_.is_stopped())
      study_.reaches.push_back(standard_reach({1, head_size, 1}, memory, *backend_));
  }
}

}  // namespace ridge::bench
