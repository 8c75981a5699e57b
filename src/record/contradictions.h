// SPDX-License-Identifier: Apache-2.0
// Warnings about tables of one report that show different times for the same thing, as happens if
// another program uses the machine for a part of the run.
#pragma once

#include <string>
#include <string_view>

#include "record/inference_record.h"
#include "record/lab_record.h"

namespace ridge::record {

// Two times of the same work that differ by a larger factor contradict each other.
inline constexpr double kOtherSpeed = 1.5;
// False if either is unknown (0).
bool contradict(double a_ns, double b_ns);

// A time and the table that shows it: "the table of levels".
struct ShownTime {
  double ns = 0;
  std::string_view where;
};
// Adds a warning that names both if they contradict each other.
void compare(const std::string& what, const ShownTime& a, const ShownTime& b, LabRecord& lab);

// The trial's runs: the doubts of each, and its first one beside the lab's run of the same setting.
void add_trial_doubts(LabRecord& lab);

// Decoding with the KV cache beside the decodes, a generation beside the sum of its parts, its first
// tokens beside the prefills.
void add_contradictions(InferenceRecord& study);

}  // namespace ridge::record
