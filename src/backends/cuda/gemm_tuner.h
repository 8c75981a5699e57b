// SPDX-License-Identifier: Apache-2.0
// Chooses the algorithm of a product: the first candidate, or the fastest of the first few
// by measuring, for a part of the GPU beside copies of itself; kept in a file with the identity of
// GPU, driver and library.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "backends/cuda/device.h"
#include "backends/cuda/gemm.h"

namespace ridge::backends::cuda {

class GemmTuner {
 public:
  // `measures` false: nothing is measured and nothing kept. Reads earlier choices from `path`
  // (empty: none are kept); a file of another identity, or
  // one that does not parse, is ignored and overwritten.
  GemmTuner(Device& device, bool measures, std::string path);
  // Writes new choices, best effort: a read-only cache costs a measurement each run, not the run.
  ~GemmTuner();
  GemmTuner(const GemmTuner&) = delete;

  // Nothing where there is no candidate. Ties within the noise go to the
  // proposal listed first, so that the choice does not waver.
  std::optional<GemmAlgorithm> choose(const GemmProblem& problem);

 private:
  Device& device_;
  bool measures_;
  std::string path_;
  std::string identity_;
  std::map<std::string, GemmAlgorithm> choices_;  // by the problem's key
  bool changed_ = false;
};

}  // namespace ridge::backends::cuda
