// SPDX-License-Identifier: Apache-2.0
// How many multiplying instructions a core starts per cycle, by its vendor, family and model: the
// theoretical rates that measured ones are compared with.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "backends/cpu/kernels/peak/multiply.h"

namespace ridge::backends::cpu {

// As CPUID reports it, with the extended family and model added.
struct Processor {
  std::string vendor;  // "AuthenticAMD", "GenuineIntel"
  int family = 0;
  int model = 0;
};
Processor this_processor();

// Instructions per core and cycle; 0 = unknown, or not an instruction of these cores.
struct CoreWidths {
  std::string_view name;  // "Zen 3"
  std::string_view vendor;
  int family, first_model, last_model;
  std::array<double, kMultipliers> per_cycle;  // by Multiplier
  std::string_view source;                     // document or measurement

  double of(Multiplier multiplier) const { return per_cycle[static_cast<size_t>(multiplier)]; }
};
// Null for a processor that the table does not have.
const CoreWidths* core_widths(const Processor& processor);

// A measured rate can exceed the theoretical one by this factor, because the clock is measured at
// another moment.
inline constexpr double kClockSlack = 1.1;

// The width, doubled until it explains the measured instructions per cycle: units come in pairs and
// vectors double in width, so a table that is too low is too low by a factor of two. If it takes
// more than two doublings, the clock was not measured right, and the width stays as it is. An
// unknown width stays 0.
double corrected_width(double per_cycle, double measured_per_cycle);

}  // namespace ridge::backends::cpu
