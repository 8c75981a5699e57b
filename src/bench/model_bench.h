// SPDX-License-Identifier: Apache-2.0
// Times prefill and decode of a whole model in an open session, counted as llama-bench does.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cost/ceilings.h"
#include "measure/machine_ceilings.h"
#include "models/model_file.h"
#include "record/beaten_ceilings.h"
#include "record/model_bench.h"
#include "serve/session_choice.h"

namespace ridge::bench {

struct ModelBenchOptions {
  int64_t depth = 0;    // KV entries before the first generated token
  int64_t batch = 1;    // sequences; the session has as many slots
  int64_t repeats = 5;  // after two warm-up runs: a GPU captures its graph in the second
  // Whether memory is read between the repeats of a decode, to compare both.
  bool reads_memory = false;
};

// The file, the session and the ceilings must outlive it.
class ModelBench {
 public:
  ModelBench(const models::ModelFile& file,
             serve::Session& session,
             const cost::Ceilings& ceilings,
             const ModelBenchOptions& options);

  // Runs a prompt of `tokens` in each slot and returns its wall time.
  double prefill(int64_t tokens);
  record::ModelTrial time_prefill(int64_t tokens);
  record::ModelTrial time_decode(int64_t tokens);
  // The last of three instrumented runs. Of a prompt longer than a chunk, it is the last chunk.
  record::KernelTimes prefill_kernels(int64_t tokens);
  record::KernelTimes decode_kernels();
  // The ceilings that a trial was faster than.
  const std::vector<record::BeatenCeiling>& beaten() const { return beaten_; }

 private:
  record::ModelTrial trial(record::ModelTrial trial, const std::function<double()>& once);
  int64_t interleaved_read_bytes() const;
  record::RatedWork counted(const std::function<double()>& once);
  int64_t decoded_cache_bytes(int64_t tokens) const;
  std::vector<int32_t> start(int64_t tokens);
  std::vector<int32_t> start_at_depth();
  std::vector<int64_t> slots() const;
  double decode(int64_t tokens);
  serve::SessionRun last_run(const std::function<void()>& run);

  const models::ModelFile& file_;
  serve::Session& session_;
  const cost::Ceilings& ceilings_;
  ModelBenchOptions o_;
  std::vector<serve::SessionRun>
      runs_;                    // since the timed part began, while the session is observed
  std::vector<int32_t> first_;  // the tokens of start_at_depth(), while its KV entries stay
  double begin_ns_ = 0;
  std::vector<record::BeatenCeiling> beaten_;
};

struct ModelBenchSetup {
  serve::InferenceOptions inference;
  std::string prompts = "512", generated = "128";  // lists of numbers of tokens; "0": none
  ModelBenchOptions trials;
  bool operations = false;  // kernel times too
};

// `ceilings` is called once the threads are set. Notes the ceilings that the trials beat, and keeps
// what they reached. Throws usage Errors before the weights are read.
record::ModelBenchRecord bench_model(const ModelBenchSetup& setup,
                                     const std::function<cost::Ceilings()>& ceilings,
                                     const measure::CeilingsNote& note);

}  // namespace ridge::bench
