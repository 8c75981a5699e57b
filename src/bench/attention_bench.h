// SPDX-License-Identifier: Apache-2.0
// The forms of attention by length, until the standard form fails to allocate. Where the forms
// between which --attention auto chooses were measured, it keeps the choice.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bench/attention_choice.h"
#include "bench/trial_runner.h"
#include "record/bench_record.h"

namespace ridge::bench {

inline constexpr int64_t kLongestAttention = int64_t{1} << 22;

struct AttentionBenchOptions {
  int64_t batch = 1, heads = 16, kv_heads = 16;
  std::string head_sizes = "64";
  // Empty: 256 to 32768 by factors of 2, and the standard form goes on to longer ones until it
  // fails to allocate.
  std::string lengths;
  std::string phases = "prefill";  // some of prefill, decode
  std::string dtypes = "fp32";     // some of fp32, bf16, fp16
  std::string forms = "all";       // or some of standard, memory-efficient, flash, paged
  bool is_backward = false;
  bool is_causal = true;        // in prefill
  std::string bytes = "ridge";  // the convention of the bytes that the table shows
  double budget_s = 60;
  bool is_gpu_sheet = false;         // planned for the data sheet of a GPU
  backends::MachineOptions machine;  // as the trials' runner has it
};

// The arguments of `ridge bench op` by which a child tries one point alone.
std::vector<std::string> child_arguments(const OpShape& op,
                                         const OpRequest& request,
                                         const AttentionBenchOptions& options);

class AttentionBench {
 public:
  // Throws usage Errors for options out of range.
  explicit AttentionBench(const AttentionBenchOptions& options);
  record::BenchRecord run(TrialRunner& runner, const PointListener& listener);

 private:
  struct Form;
  struct Case;  // a phase, a type and a head size
  std::vector<Form> chosen_forms(bool decodes) const;
  void measure_form(const Form& form, const Case& at);
  record::BenchPoint measure(const Form& form, const Case& at, int64_t length, bool& has_failed);
  record::BenchPoint timed(const AttentionTrialGraph& graph);
  int64_t free_bytes();
  std::string failure(const OpShape& op, const OpRequest& request);
  void add_winners(size_t first, const Case& at);
  void keep_choices(size_t first, const Case& at) const;
  AttentionCall call(const Case& at, int64_t length) const;

  AttentionBenchOptions o_;
  std::vector<int64_t> head_sizes_, lengths_;
  TrialRunner* runner_ = nullptr;
  const PointListener* listener_ = nullptr;
  record::BenchRecord bench_;
  double left_ns_;
};

}  // namespace ridge::bench
