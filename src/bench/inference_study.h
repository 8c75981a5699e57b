// SPDX-License-Identifier: Apache-2.0
// A study of inference compares techniques: levels with switches, by times of prefill and decode.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "cost/ceilings.h"
#include "measure/inference_run.h"
#include "record/bench_record.h"

namespace ridge::bench {

struct Technique {
  std::string_view name;
  std::string_view summary;
  std::string_view level;
  std::string_view switches;
  int64_t most_queries = 0;  // memory holds their scores at once; 0: a whole prompt's
  bool pages = false;        // the KV cache lies in blocks of 16 positions
};
std::span<const Technique> techniques();
// "all", or a list of names. Throws usage Errors.
std::vector<Technique> choose_techniques(const std::string& names);

// The experiment with the technique's prefill chunks and cache. The selection stays the caller's.
measure::InferenceExperiment with_technique(measure::InferenceExperiment experiment,
                                            const Technique& technique);

// A technique at one size: time, counts, prediction and limit of a prefill and of a decode step.
struct PhasePoints {
  record::BenchPoint prefill, decode;
};
// Counts and predicts without allocating. Sizes beyond `most_bytes` (0: unknown) have `refused`.
PhasePoints plan_technique(const models::ModelFile& file,
                           const measure::InferenceExperiment& experiment,
                           const passes::PassTarget& target,
                           const cost::Ceilings& ceilings,
                           int64_t most_bytes);
// Times the points that plan_technique did not refuse; they have no times if it was stopped.
void time_technique(const models::ModelFile& file,
                    const measure::InferenceExperiment& experiment,
                    backends::Backend& backend,
                    const cost::Ceilings& ceilings,
                    PhasePoints& points);

// Fills speed-ups from `first` on over a phase's first point, if both are timed or predicted.
void add_speedups(std::vector<record::BenchPoint>& points, size_t first);

// Others published this time: a prefill of `length` tokens a sequence, or a decode step after them.
struct PublishedTime {
  std::string_view source;  // "machine, software"
  std::string_view model, technique;
  bool decodes;
  int64_t length, batch;
  double ms;
};
// Empty until the program adds times, at its start.
std::vector<PublishedTime>& published_times();
// The published times of this model, by their source.
std::map<std::string, double> published_ns(std::string_view model,
                                           std::string_view technique,
                                           std::string_view phase,
                                           int64_t batch,
                                           int64_t length);

}  // namespace ridge::bench
