// SPDX-License-Identifier: Apache-2.0
// Measures part by part while the time lasts.
#include "bench/inference_lab.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "bench/attention_trial.h"

namespace ridge::bench {
namespace {

// The share of the study's time at which each part must end.
constexpr double kPhasesEnd = 0.45, kGainsEnd = 0.55, kLatenciesEnd = 0.8, kAttentionEnd = 1;

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

}  // namespace

InferenceLab::InferenceLab(const models::ModelFile& file,
                           backends::Backend& backend,
                           InferenceLabOptions options,
                           record::InferenceRecord& study)
    : file_(file), backend_(backend), o_(std::move(options)), study_(study), begin_ns_(now_ns()) {}

void InferenceLab::run() {
  measure_phases();
  if (study_.lab.runs.empty()) return;
  measure_gains();
  measure_latencies();
  measure_attention();
}

// Whether no Ctrl-C came, before or within a part of the study; if one did, the part is left out.
bool InferenceLab::continues(const std::string& what) {
  if (o_.is_stopped()) study_.left_out.push_back(what + ": Ctrl-C ended the lab");
  return !o_.is_stopped();
}

// Whether work on this many tokens, at the rate of the last prefill, would end before `share` of
// the time has passed.
bool InferenceLab::allows(double share, double tokens, const std::string& what) {
  if (!continues(what)) return false;
  double needed_ns = tokens * ns_per_token_,
         left_ns = share * o_.seconds * 1e9 - (now_ns() - begin_ns_);
  if (needed_ns <= left_ns) return true;
  study_.left_out.push_back(
      fmt::format("{}: needs about {:.0f} s, but {:.0f} s are left (--seconds)", what,
                  needed_ns / 1e9, std::max(left_ns, 0.0) / 1e9));
  return false;
}

// Every level runs at the first batch and length, the last level at all others.
void InferenceLab::measure_phases() {
  for (int64_t length : o_.lengths)
    for (int64_t batch : o_.batches) {
      bool is_first = batch == o_.batches[0] && length == o_.lengths[0];
      for (const std::string& level : o_.levels) {
        if (!is_first && level != o_.levels.back()) continue;
        std::string what =
            fmt::format("prefill and decode, {}, batch {}, length {}", level, batch, length);
        if (is_first ? !continues(what)
                     : !allows(kPhasesEnd, 6.0 * static_cast<double>(batch * length), what))
          continue;
        o_.announce(what, now_ns() - begin_ns_);
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
  if (level != o_.levels.back()) of_level = o_.make_backend(level);
  std::optional<record::PhaseRecords> phases =
      measure::measure_phases(file_, o_.experiment(level, batch, length),
                              of_level ? *of_level : backend_, study_.lab.limits());
  if (!phases) return continues(what);
  ns_per_token_ = phases->prefill.wall().median / static_cast<double>(batch * length);
  decode_ns_ = phases->decode.wall().median / static_cast<double>(batch);
  study_.lab.runs.push_back(std::move(phases->prefill));
  study_.lab.runs.push_back(std::move(phases->decode));
  return true;
}

void InferenceLab::measure_gains() {
  for (int64_t length : o_.lengths) {
    std::string what = fmt::format("with and without the KV cache, length {}", length);
    if (!allows(kGainsEnd, 8.0 * static_cast<double>(length), what)) continue;
    o_.announce(what, now_ns() - begin_ns_);
    if (auto gain = measure::measure_cache_gain(file_, o_.experiment(o_.levels.back(), 1, length),
                                                backend_))
      study_.gains.push_back(std::move(*gain));
    else
      continues(what);
  }
}

void InferenceLab::measure_latencies() {
  for (int64_t batch : o_.latency_batches) {
    std::string what =
        fmt::format("latency, batch {}: {} tokens after {}", batch, o_.tokens, o_.prompt);
    double prompts = 2.0 * static_cast<double>(batch * o_.prompt);
    double generated =
        2.0 * static_cast<double>(batch * o_.tokens) * decode_ns_ / std::max(ns_per_token_, 1.0);
    if (!allows(kLatenciesEnd, prompts + generated, what)) continue;
    o_.announce(what, now_ns() - begin_ns_);
    if (auto latency = measure::measure_latency(
            file_, o_.experiment(o_.levels.back(), batch, o_.prompt), o_.tokens, backend_))
      study_.latencies.push_back(std::move(*latency));
    else
      continues(what);
  }
}

void InferenceLab::measure_attention() {
  const int64_t memory = study_.lab.ceilings->machine.memory_bytes;
  for (int64_t head_size : {int64_t{64}, int64_t{128}}) {
    for (int64_t length : o_.attention_lengths) {
      std::string what = fmt::format("attention, head size {}, length {}", head_size, length);
      if (!continues(what)) continue;
      o_.announce(what, now_ns() - begin_ns_);
      double left_ns = kAttentionEnd * o_.seconds * 1e9 - (now_ns() - begin_ns_);
      // The other half of the free memory is for other programs.
      AttentionLimits limits{backend_.available_bytes() / 2, std::max(left_ns / 4, 1e6),
                             2e6 * o_.seconds};
      study_.attention.push_back(
          try_attention({1, head_size, length}, limits, backend_, study_.lab.limits()));
    }
    if (memory > 0 && !o_.is_stopped())
      study_.reaches.push_back(standard_reach({1, head_size, 1}, memory, backend_));
  }
}

}  // namespace ridge::bench
