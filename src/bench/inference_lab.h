// SPDX-License-Identifier: Apache-2.0
// The parts of inference of a model file in a given time: prefill and decode, the gain of the KV
// cache, latency, and attention by length.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/backend.h"
#include "measure/inference_run.h"
#include "models/model_file.h"
#include "record/inference_record.h"

namespace ridge::bench {

struct InferenceLabOptions {
  std::vector<std::string> levels;  // the last is measured at all sizes, the others at the first
  std::vector<int64_t> batches, lengths, latency_batches, attention_lengths;
  int64_t prompt = 64, tokens = 32;  // the latency's
  double seconds = 120;
  std::function<std::unique_ptr<backends::Backend>(const std::string& level)> make_backend;
  std::function<
      measure::InferenceExperiment(const std::string& level, int64_t batch, int64_t length)>
      experiment;
  std::function<bool()> is_stopped;
  // Called before each part with the time since the beginning.
  std::function<void(const std::string& part, double ns)> announce;
};

class InferenceLab {
 public:
  // The time begins here. The study has the ceilings; runs, gains, latencies and the parts that are
  // left out are added to it. The arguments by reference must outlive the lab.
  InferenceLab(const models::ModelFile& file,
               backends::Backend& backend,
               InferenceLabOptions options,
               record::InferenceRecord& study);
  void run();

 private:
  bool continues(const std::string& what);
  bool allows(double share, double tokens, const std::string& what);
  void measure_phases();
  bool add_phases(const std::string& level, int64_t batch, int64_t length, const std::string& what);
  void measure_gains();
  void measure_latencies();
  void measure_attention();

  const models::ModelFile& file_;
  backends::Backend& backend_;  // the last level's
  InferenceLabOptions o_;
  record::InferenceRecord& study_;
  double begin_ns_;
  double ns_per_token_ = 0, decode_ns_ = 0;  // the last measured prefill's and decode's
};

}  // namespace ridge::bench
