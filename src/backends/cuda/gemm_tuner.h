// SPDX-License-Identifier: Apache-2.0
// Chooses the algorithm of a product: the first candidate, or the fastest of the first few by
// measuring. For a product on a part of the GPU, candidates are measured next to copies of
// themselves. Choices are stored in a file with the identity of GPU, driver and library.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "backends/cuda/device.h"
#include "backends/cuda/gemm.h"
#include "backends/tuning_file.h"

namespace ridge::backends::cuda {

class GemmTuner {
 public:
  // `measures` false: nothing is measured and nothing is stored. Reads earlier choices from `path`
  // (empty: none are stored); a file with another identity, or one that does not parse, is ignored
  // and overwritten.
  GemmTuner(Device& device, bool measures, std::string path);
  // Writes new choices, best effort: a read-only cache costs a measurement in each run, but does
  // not fail the run.
  ~GemmTuner();
  GemmTuner(const GemmTuner&) = delete;

  // Returns nullopt if there is no candidate. Ties within the noise go to the proposal listed
  // first, so that the choice is stable.
  std::optional<GemmAlgorithm> choose(const GemmProblem& problem);

 private:
  Device& device_;
  bool measures_;
  std::string path_;
  std::string identity_;
  struct Choice {
    GemmAlgorithm algorithm{};
    TunedTimes times;  // 0 where there was one candidate
  };
  static Choice fastest(Device& device,
                        const GemmProblem& problem,
                        const std::vector<GemmAlgorithm>& candidates);

  std::map<std::string, Choice> choices_;  // by the problem's key
  bool changed_ = false;
};

}  // namespace ridge::backends::cuda
