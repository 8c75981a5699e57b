// SPDX-License-Identifier: Apache-2.0
// Chooses the call form of a product by measuring, and stores the choices in a file with the
// machine's identity.
#pragma once

#include <string>

#include "backends/cpu/gemm.h"
#include "backends/tuning_file.h"

namespace ridge::backends::cpu {

class GemmTuner {
 public:
  // Keeps choices in the file at `path` (empty: nowhere). A read-only cache costs a measurement in
  // each run, but does not fail the run.
  explicit GemmTuner(std::string path);

  // The fastest form for the shape, measured with random data once per shape and machine, all
  // interleaved. Ties within the noise go to the default form, then to the form listed first, so
  // that the choice is stable. Native forms are considered if `native` allows it.
  GemmForm choose(const GemmShape& shape, bool native);

 private:
  KeptChoices kept_;  // by the shape's key and `native`
};

}  // namespace ridge::backends::cpu
