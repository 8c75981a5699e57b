// SPDX-License-Identifier: Apache-2.0
// One module of a configuration at several phases and sizes, in the forms in which it can run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/module_trial.h"
#include "bench/trial_runner.h"
#include "models/config.h"
#include "record/bench_record.h"

namespace ridge::bench {

struct ModuleBenchOptions {
  std::string module;
  std::string config = "gemma3-270m";
  std::string phases = "prefill";
  std::string batch_sizes = "1", lengths = "512";
  std::string contexts;  // keys of a sequence in decode; empty: the lengths
  std::string dtype = "bf16";
  std::string forms = "all";
  std::string bytes = "ridge";
  int64_t layer = 0;
  bool is_gpu_sheet = false;  // planned for the data sheet of a GPU
};

class ModuleBench {
 public:
  // Throws usage Errors; all graphs are built once.
  ModuleBench(const ModuleBenchOptions& options, bool on_gpu);
  bool is_tf32() const { return type_.is_tf32; }
  bool decodes() const;
  int64_t size() const { return std::ssize(requests_) * std::ssize(forms_); }
  record::BenchRecord run(TrialRunner& runner, const PointListener& listener) const;

 private:
  record::BenchPoint measure(TrialRunner& runner,
                             const ModuleRequest& request,
                             const ModuleForm& form) const;
  std::string swept() const;

  ModuleBenchOptions o_;
  models::ModelConfig config_;
  TrialType type_;
  std::vector<ModuleRequest> requests_;
  std::vector<ModuleForm> forms_;
};

}  // namespace ridge::bench
