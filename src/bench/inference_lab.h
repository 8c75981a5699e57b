// SPDX-License-Identifier: Apache-2.0
// The parts of inference of a model file in a given time: prefill and decode, the gain of the KV
// cache, latency, and attention by length.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "measure/inference_run.h"
#include "record/inference_record.h"
#include "serve/session_choice.h"

namespace ridge::bench {

// Lists of levels and sizes as the user types them. Ranks that share the model measure together.
struct InferenceLabOptions {
  std::string levels = "all";  // the last is measured at all sizes, the others at the first
  std::string batch_sizes = "1,8";
  std::string lengths;  // empty: by the model's context
  std::string latency_batches = "1,8,16,32";
  std::string attention_lengths = "256,512,1024,2048,4096,8192,16384,32768";
  int64_t prompt = 64, tokens = 32;  // the latency's
  double seconds = 120;
};

struct InferenceLabListener {
  std::function<bool()> is_stopped;  // one answer on all ranks, each of which asks as often
  // Called before each part with the time since the beginning.
  std::function<void(const std::string& part, double ns)> announce;
  // As in measure::Repeats.
  std::function<bool(bool here)> any = [](bool here) { return here; };
};

class InferenceLab {
 public:
  // Opens the file and finds every error in the options before anything runs. The arguments must
  // outlive the lab, which fills the study.
  InferenceLab(const serve::InferenceOptions& inference,
               const InferenceLabOptions& options,
               record::InferenceRecord& study);
  // The time begins here. The study has the ceilings; runs, gains, latencies, the parts that are
  // left out and warnings are added to it.
  void run(const InferenceLabListener& listener);

 private:
  void expect_cache(const char* option, int64_t batch, int64_t length) const;
  measure::InferenceExperiment experiment(const std::string& level,
                                          int64_t batch,
                                          int64_t length) const;
  bool continues(const std::string& what);
  bool allows(double share, double tokens, const std::string& what);
  void announce(const std::string& what) const;
  void measure_phases();
  bool add_phases(const std::string& level, int64_t batch, int64_t length, const std::string& what);
  void measure_gains();
  void measure_latencies();
  void measure_attention();

  const serve::InferenceOptions& inference_;
  const InferenceLabOptions& o_;
  record::InferenceRecord& study_;
  std::vector<std::string> levels_;
  std::vector<int64_t> batches_, lengths_, latency_batches_, attention_lengths_;
  models::ModelFile file_;
  std::unique_ptr<backends::Backend> backend_;  // the last level's
  InferenceLabListener listener_;
  double begin_ns_ = 0;
  double ns_per_token_ = 0, decode_ns_ = 0;  // the last measured prefill's and decode's
};

}  // namespace ridge::bench
