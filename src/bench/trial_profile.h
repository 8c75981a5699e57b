// SPDX-License-Identifier: Apache-2.0
// The profiles of a bench's points as the runs of a lab, whose files and reports they share.
#pragma once

#include "backends/machine.h"
#include "record/bench_record.h"
#include "record/lab_record.h"

namespace ridge::bench {

// `about` has the program, the command, the time and the ceilings. Each point with a profile is a
// run that is reported in detail: its form stands as the level, its phase as the task.
record::LabRecord profile_lab(record::LabRecord about,
                              const record::BenchRecord& bench,
                              const backends::MachineOptions& machine);

}  // namespace ridge::bench
