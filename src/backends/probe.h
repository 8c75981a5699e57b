// SPDX-License-Identifier: Apache-2.0
// Work that a backend offers by name to be timed. How often it is timed, in which order and beside
// what is measure/'s business.
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
  // Untimed, before each sample; where `run` counts on what it leaves, a sample is one run. May be
  // empty.
  std::function<void()> prepare = {};
  // It reads the device's clock by itself: it runs once, and its time says nothing.
  bool times_itself = false;
  std::vector<double> samples_ns = {};  // of one run each, filled in by measure/

  // Disturbances only ever add time, and a ceiling is what the machine reaches undisturbed: the
  // lower octile of the samples, for of many the least would be luck.
  double undisturbed_ns() const { return quantile_ns(1.0 / 8); }
  // What a run usually takes, as predictions of medians want it: the median of the samples.
  double usual_ns() const { return quantile_ns(1.0 / 2); }

 private:
  double quantile_ns(double share) const {
    RIDGE_CHECK(!samples_ns.empty(), "{} was not measured", name);
    std::vector<double> sorted = samples_ns;
    std::sort(sorted.begin(), sorted.end());
    return sorted[static_cast<size_t>(share * static_cast<double>(sorted.size()))];
  }
};

// Probes that keep their addresses.
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

// What a machine's ceilings are made of.
class Calibration {
 public:
  virtual ~Calibration() = default;
  virtual ProbeList& probes() = 0;
  // Once the probes have run.
  virtual cost::Ceilings ceilings() = 0;
};

// How fast the host enqueues launches now: their time beside that at calibration.
struct EnqueueProbe {
  std::function<void()> run;  // returns once they are enqueued
  std::function<double(const cost::Ceilings&)> expected_ns;
};

}  // namespace ridge::backends
