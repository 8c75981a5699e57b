// SPDX-License-Identifier: Apache-2.0
// How fast the host enqueues launches now, beside the rate at calibration: a host that launches
// one by one has another speed within seconds, as other programs and heat slow it down.
#pragma once

#include <vector>

#include "backends/backend.h"
#include "cost/ceilings.h"

namespace ridge::measure {

class LaunchRate {
 public:
  // `ceilings` may be null. Takes what memory the probe needs at once.
  LaunchRate(backends::Backend& backend, const cost::Ceilings* ceilings);

  // Whether the time of a step depends on it: its launches are made one by one.
  bool matters() const { return probe_ != nullptr; }
  // Times the probe once, about 1 ms: a step after 10 ms with little to do for the device takes up
  // to a sixth longer.
  void sample();
  const std::vector<double>& samples() const { return samples_; }  // 1 = as at calibration

 private:
  backends::Backend& backend_;
  const cost::Ceilings* ceilings_;
  const backends::EnqueueProbe* probe_;
  std::vector<double> samples_;
};

}  // namespace ridge::measure
