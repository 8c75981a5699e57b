// SPDX-License-Identifier: Apache-2.0
// Chooses the call form of a product by measuring, and stores the choices in a file with the
// machine's identity.
#pragma once

#include <map>
#include <string>

#include "backends/cpu/gemm.h"
#include "backends/tuning_file.h"

namespace ridge::backends::cpu {

class GemmTuner {
 public:
  // Reads earlier choices from `path` (empty: none are stored). A file of another machine, thread
  // count or ISA, or one that does not parse, is ignored and overwritten.
  explicit GemmTuner(std::string path);
  // Writes new choices, best effort: a read-only cache costs a measurement in each run, but does
  // not fail the run.
  ~GemmTuner();
  GemmTuner(const GemmTuner&) = delete;

  // The fastest form for the shape, measured with random data once per shape and machine, all
  // interleaved. Ties within the noise go to the default form, then to the form listed first, so
  // that the choice is stable. Native forms are considered if `native` allows it.
  GemmForm choose(const GemmShape& shape, bool native);

 private:
  std::string path_;
  std::string identity_;
  struct Choice {
    std::string form;  // its name
    TunedTimes times;
  };
  static Choice measure(const GemmShape& shape, bool native);

  std::map<std::string, Choice> choices_;  // by the shape's key and `native`
  bool changed_ = false;
};

}  // namespace ridge::backends::cpu
