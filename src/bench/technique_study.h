// SPDX-License-Identifier: Apache-2.0
// A study of techniques of inference over batch sizes, lengths and types: each point is predicted,
// and timed as far as the time for all measurements goes.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/inference_study.h"
#include "bench/trial_runner.h"
#include "models/model_file.h"
#include "record/bench_record.h"

namespace ridge::bench {

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
