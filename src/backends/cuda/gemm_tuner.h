// SPDX-License-Identifier: Apache-2.0
// Chooses the algorithm of a product: the first candidate, or the fastest of the first few by
// measuring. For a product on a part of the GPU, candidates are measured next to copies of
// themselves. Choices are stored in a file with the identity of GPU, driver and library.
#pragma once

#include <optional>
#include <string>

#include "backends/cuda/device.h"
#include "backends/cuda/gemm.h"
#include "backends/tuning_file.h"

namespace ridge::backends::cuda {

class GemmTuner {
 public:
  // `measures` false: nothing is measured and nothing is stored. Keeps choices in the file at
  // `path` (empty: nowhere). A read-only cache costs a measurement in each run, but does not fail
  // the run.
  GemmTuner(Device& device, bool measures, std::string path);

  // Returns nullopt if there is no candidate. Ties within the noise go to the proposal listed
  // first, so that the choice is stable.
  std::optional<GemmAlgorithm> choose(const GemmProblem& problem);

 private:
  Device& device_;
  bool measures_;
  KeptChoices kept_;  // by the problem's key
};

}  // namespace ridge::backends::cuda
