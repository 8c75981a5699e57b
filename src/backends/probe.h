// SPDX-License-Identifier: Apache-2.0
// Named pieces of work that a backend provides for timing. measure/ decides how often each one is
// timed, in which order and next to which others.
#pragma once

#include <algorithm>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "cost/ceilings.h"

namespace ridge::backends {

struct Probe {
  std::string name;
  std::function<void()> run;
  // Runs untimed before each sample. If `run` depends on its effect, a sample is one run. May be
  // empty.
  std::function<void()> prepare = {};
  // It reads the device's clock itself: it runs once, and the time of the run means nothing.
  bool times_itself = false;
  std::vector<double> samples_ns = {};  // one per run, filled in by measure/

  // The lower octile of the samples: disturbances only add time, and a ceiling is what the machine
  // reaches undisturbed. With many samples the minimum would depend on luck.
  double undisturbed_ns() const { return quantile_ns(1.0 / 8); }
  // The typical time of a run, for predictions of medians: the median of the samples.
  double usual_ns() const { return quantile_ns(1.0 / 2); }

 private:
  double quantile_ns(double share) const {
    RIDGE_CHECK(!samples_ns.empty(), "{} was not measured", name);
    std::vector<double> sorted = samples_ns;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size()))];
  }
};

// A list of probes whose addresses stay valid.
class ProbeList {
 public:
  Probe& add(std::string name, std::function<void()> run, std::function<void()> prepare = {}) {
    return probes_.emplace_back(Probe{std::move(name), std::move(run), std::move(prepare)});
  }
  auto begin() { return probes_.begin(); }
  auto end() { return probes_.end(); }
  size_t size() const { return probes_.size(); }

 private:
  std::list<Probe> probes_;
};

// The probes from which a machine's ceilings are computed.
class Calibration {
 public:
  virtual ~Calibration() = default;
  virtual ProbeList& probes() = 0;
  // Call after the probes have run.
  virtual cost::Ceilings ceilings() = 0;
};

// Compares how fast the host enqueues launches now with the time expected from calibration.
struct EnqueueProbe {
  std::function<void()> run;  // returns once they are enqueued
  std::function<double(const cost::Ceilings&)> expected_ns;
};

}  // namespace ridge::backends
