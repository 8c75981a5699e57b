// SPDX-License-Identifier: Apache-2.0
// How ceilings are timed: experiments side by side in rounds, so that what disturbs the machine for
// a while hits some samples of all of them and all of none. Private to measure_*.cc.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <string>
#include <vector>

#include "backends/cpu/measure_ceilings.h"
#include "base/arena.h"

namespace ridge::backends::cpu {

// Work that is timed. One sample repeats `run` until the clock's own cost is negligible; where
// `run` counts on what `prepare` leaves, it is one run after that.
class Timing {
 public:
  explicit Timing(std::function<void()> run, std::function<void()> prepare = {})
      : run_(std::move(run)), prepare_(std::move(prepare)) {}
  void sample();
  // Nanoseconds of one run. Disturbances only ever add time, and a ceiling is what the machine
  // reaches undisturbed: the lower octile of the samples, for of many the least would be luck.
  double undisturbed_ns() const { return quantile_ns(1.0 / 8); }
  // What a run usually takes, as predictions of medians want it: the median of the samples.
  double usual_ns() const { return quantile_ns(1.0 / 2); }
  double cost_ns() const { return spent_ns_; }

 private:
  double quantile_ns(double share) const;

  std::function<void()> run_;
  std::function<void()> prepare_;  // untimed; may be empty
  int64_t repeats_ = 0;            // 0: not yet warmed up
  double spent_ns_ = 0;            // of the last sample, preparation included
  std::vector<double> samples_;
};

class Rounds {
 public:
  Timing& add(std::function<void()> run, std::function<void()> prepare = {}) {
    return timings_.emplace_back(std::move(run), std::move(prepare));
  }
  // Samples all in turn until `budget_ns` is spent (at least 3 rounds, at most 15). Long ones sit
  // out every other round.
  void run(double budget_ns, const std::function<void(double done)>& progress);

 private:
  std::list<Timing> timings_;  // stable addresses
};

// Random numbers in [-0.5, 0.5) in inputs, space for results beside: results never become inputs,
// so values stay small.
class Pool {
 public:
  // `bytes` of each.
  Pool(DType dtype, int64_t bytes);
  std::byte* input(int64_t offset_bytes) const { return inputs_.data() + offset_bytes; }
  std::byte* result(int64_t offset_bytes) const { return results_.data() + offset_bytes; }
  int64_t bytes() const { return inputs_.bytes(); }

 private:
  Arena inputs_;
  Arena results_;
};

// Each part of the ceilings: adds its timings, and
// returns what reads them once the rounds are over.
using Finish = std::function<void(cost::Ceilings&)>;
Finish measure_products(Rounds& rounds, const Pool& f32, const Pool& bf16);
Finish measure_attention(Rounds& rounds, const Pool& f32, const Pool& bf16);
Finish measure_memory(Rounds& rounds,
                      const Pool& f32,
                      const std::vector<cost::MemoryLevel>& caches);
Finish measure_vectors(Rounds& rounds, const Pool& f32);

}  // namespace ridge::backends::cpu
