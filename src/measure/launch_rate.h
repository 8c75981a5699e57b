// SPDX-License-Identifier: Apache-2.0
// How fast the host enqueues launches.
#pragma once

#include <vector>

#include "backends/backend.h"
#include "cost/ceilings.h"

namespace ridge::measure {

// Measures how fast the host enqueues launches now, relative to the rate at calibration. The speed
// of a host that launches kernels one by one changes within seconds, because other programs and
// heat slow it down.
class LaunchRate {
 public:
  // `ceilings` may be null. Allocates the probe's memory.
  LaunchRate(backends::Backend& backend, const cost::Ceilings* ceilings);

  // Whether the step time depends on the launch rate, because the host launches kernels one by one.
  bool matters() const { return probe_ != nullptr; }
  // Times the probe once. It takes only about 1 ms, because after 10 ms on a nearly idle device a
  // step takes up to a sixth longer.
  void sample();
  const std::vector<double>& samples() const { return samples_; }  // 1 = as at calibration

 private:
  backends::Backend& backend_;
  const cost::Ceilings* ceilings_;
  const backends::EnqueueProbe* probe_;
  std::vector<double> samples_;
};

}  // namespace ridge::measure
