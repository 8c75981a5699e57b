// SPDX-License-Identifier: Apache-2.0
// A study of inference compares techniques, which are levels with switches, over batch sizes,
// lengths and types by the times of prefill and decode: each point is predicted, and timed as far
// as the time for all measurements goes.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "backends/backend.h"
#include "bench/trial_runner.h"
#include "cost/ceilings.h"
#include "measure/inference_run.h"
#include "models/model_file.h"
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

// The type of weights as the file stores them, next to "fp32" and "bf16".
inline constexpr const char* kStoredType = "file";

// A model with weights, or the shape of a configuration or of a known name.
models::ModelFile open_studied(const std::string& model);

struct StudyChoice {
  std::string title;  // the model's
  std::vector<Technique> techniques;
  std::vector<int64_t> batches, lengths;
  std::vector<std::string> dtypes;
  double budget_ns = 0;  // for all measurements; points beyond it are predicted
  bool on_gpu = false;
  int64_t ranks = 1, rank = 0;  // the processes that share the model, and this one
  // As in measure::Repeats.
  std::function<bool(bool here)> any = [](bool here) { return here; };

  int64_t points() const;  // each is a prefill and a decode step
};
// The title of a model that has no name is the stem of its path.
std::string study_title(const models::ModelFile& file, const std::string& path);
// Throws usage Errors for choices that the model does not allow, before anything is allocated.
void validate(const StudyChoice& choice, const models::ModelFile& file);

class TechniqueStudy {
 public:
  // The setting of a run, for its record.
  using Describe = std::function<record::Setting(const passes::Selection& selection,
                                                 const std::string& switches)>;
  // All must outlive the study.
  TechniqueStudy(const models::ModelFile& file,
                 const StudyChoice& choice,
                 TrialRunner& trials,
                 Describe describe);

  // The points of all sizes, or those that were complete when the trials were stopped.
  record::BenchRecord run(const PointListener& progress);

 private:
  PhasePoints measure(const Technique& technique,
                      const std::string& dtype,
                      int64_t batch,
                      int64_t length);
  passes::Selection selection(const Technique& technique, const std::string& dtype) const;
  void time(measure::InferenceExperiment& experiment, PhasePoints& points);
  int64_t points_left() const;
  void add(PhasePoints points, const Technique& technique, const std::string& dtype);
  void add_notes();
  void add_paging();

  const models::ModelFile& file_;
  const StudyChoice& o_;
  TrialRunner& trials_;
  Describe describe_;
  double left_ns_;
  record::BenchRecord record_;
};

// Why nothing could run, if it was for lack of memory; empty otherwise.
std::string lacking_memory(const record::BenchRecord& study);

}  // namespace ridge::bench
