// SPDX-License-Identifier: Apache-2.0
// Warnings about tables of one report that show different times for the same thing, as happens if
// another program uses the machine for a part of the run.
#pragma once

#include <string>
#include <string_view>

#include "record/inference_record.h"
#include "record/lab_record.h"

namespace ridge::record {

// Two times of the same work that differ by a larger factor are inconsistent.
inline constexpr double kOtherSpeed = 1.5;
// False if either is unknown (0).
bool are_inconsistent(double a_ns, double b_ns);

// A time and the table that shows it: "the table of levels".
struct ShownTime {
  double ns = 0;
  std::string_view where;
};
// Adds a warning that names both if they are inconsistent.
void compare(const std::string& what, const ShownTime& a, const ShownTime& b, LabRecord& lab);

// Checks the trial's runs: each by itself, and the first one against the lab's run of the same
// setting.
void check_trial_consistency(LabRecord& lab);

// Compares decoding with the KV cache with the decodes, a generation with the sum of its parts, and
// its first tokens with the prefills.
void check_consistency(InferenceRecord& study);

}  // namespace ridge::record
