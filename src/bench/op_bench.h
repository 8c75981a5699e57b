// SPDX-License-Identifier: Apache-2.0
// One op at any size, or on its test cases and the sizes of the presets.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "bench/op_shapes.h"
#include "bench/trial_runner.h"
#include "record/bench_record.h"

namespace ridge::bench {

struct OpBenchOptions {
  std::string shape;
  std::vector<std::string> sweeps;
  std::string dtype = "fp32";
  std::string layout;
  std::string implementation;  // empty: the first one
  bool is_backward = false;
  bool is_causal = false;
  bool fits = false;
  bool tune = false;
  bool limits_memory = false;      // also runs what does not fit, so that its allocation fails
  std::string library = "onednn";  // the library of GEMMs on the device, as a point names it
  bool is_gpu_sheet = false;       // planned for the data sheet of a GPU
  std::string bytes = "ridge";     // a name of unfused_bytes_names(): forward points show those
};

// An op with letters: one point for each size and each implementation.
class OpBench {
 public:
  // Throws usage Errors. All graphs are built once, so that a size that cannot be is refused before
  // the first is run. The shape must outlive it.
  OpBench(const OpBenchOptions& options, const OpShape& shape);
  int64_t size() const { return std::ssize(points_) * std::ssize(implementations_); }
  bool is_tf32() const { return type_.is_tf32; }
  record::BenchRecord run(TrialRunner& runner, const PointListener& listener) const;

 private:
  OpRequest request(const record::Extents& extents, const Implementation& form) const {
    return {extents, type_, o_.is_causal, layout_, form};
  }
  record::BenchPoint measure(TrialRunner& runner,
                             const record::Extents& extents,
                             const Implementation& form,
                             bool backward) const;

  OpBenchOptions o_;
  const OpShape& shape_;
  TrialType type_;
  std::vector<Implementation> implementations_;
  std::string layout_;
  std::vector<record::Extents> points_;
  std::string swept_;
};

// An op's test cases and its calls in the presets, with castable inputs in the type of activations.
class OpCaseBench {
 public:
  // Throws usage Errors.
  OpCaseBench(const std::string& op, const OpBenchOptions& options);
  bool is_tf32() const { return selection_.has("tf32"); }
  // Throws a usage Error if there are none.
  std::vector<Case> cases(TrialRunner& runner) const;
  record::BenchRecord run(const std::vector<Case>& cases,
                          TrialRunner& runner,
                          const PointListener& listener) const;

 private:
  const Op& op_;
  std::string dtype_;  // as typed
  passes::Selection selection_;
};

}  // namespace ridge::bench
