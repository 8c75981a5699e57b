// SPDX-License-Identifier: Apache-2.0
// The clocks of ranks compared: a time of this rank on the clock of the first one. The ranks of one
// host read the same clock. Between hosts, no rank leaves an exchange before every rank has entered
// it, which bounds the difference of two clocks from both sides.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "backends/collectives/communicator.h"

namespace ridge::runtime {

// When a rank entered an exchange and when it left it, on its own clock.
struct ClockReading {
  double entered_ns = 0, left_ns = 0;
};
// How far a clock is ahead of the first rank's: within `error_ns` of `ahead_ns`.
struct ClockOffset {
  double at_ns = 0;  // on the own clock
  double ahead_ns = 0, error_ns = 0;
};
// From the readings of the same exchanges, at least one.
ClockOffset clock_offset(std::span<const ClockReading> first, std::span<const ClockReading> own);

class RankClock {
 public:
  // All ranks call it, before and after what they time: between the two the clocks are taken to
  // drift evenly.
  void compare(backends::Communicator& all);
  // At least one comparison was made.
  double to_first(double ns) const;
  double error_ns() const;     // at most
  std::string method() const;  // in words

 private:
  bool is_shared_ = false;            // all ranks are on one host
  std::vector<ClockOffset> offsets_;  // by comparison
};

}  // namespace ridge::runtime
