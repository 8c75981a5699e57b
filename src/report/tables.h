// SPDX-License-Identifier: Apache-2.0
// The tables of a lab: the ladder of levels, the sweep, operations, passes, memory, advice. Each is
// a base Table, which the terminal and Markdown both print.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "base/terminal.h"
#include "record/lab_record.h"
#include "record/operation_table.h"

namespace ridge::report {

// Cells: a median; its interval, with what that is worth where samples are too few for 95%; a
// predicted time and how far off it is.
std::string time_cell(const Summary& summary);
std::string interval_cell(const Summary& summary);
std::string prediction_cell(double predicted_ns, double measured_ns);

// A column a run, a row a figure. `runs` is one of record::ladders(lab).
Table ladder_table(const record::LabRecord& lab, std::span<const size_t> runs);

// "+0.4% (-0.3% - +1.1%)": what instrumented steps took beyond the plain ones beside them.
std::string profiling_cost(const record::RunRecord& run);
std::string profiling_cost_of_run(const record::RunRecord& run);

// A row a run: for several batch sizes or lengths.
Table sweep_table(const record::LabRecord& lab);

// Whether kernels ran side by side to an extent that matters.
bool side_by_side(const record::StepRecord& step);
// What the column of own times means; empty for a step that has none.
std::string exclusive_note(const record::StepRecord& step);

// Kernels that ran in the typical instrumented step.
int64_t kernels_profiled(const record::StepRecord& step);
// Which ops ran more or fewer kernels than the plan counts; empty where none did.
std::string kernel_count_note(const record::StepRecord& step);
// That, a line a run with its level before it.
std::vector<std::string> kernel_count_notes(const record::LabRecord& lab,
                                            std::span<const size_t> runs);

// One row a key, then idle, host and the whole step. `most` cuts rows (0: none) and says what
// was left out.
Table operation_table(const record::OperationTable& table,
                      const record::StepRecord& step,
                      size_t most = 0);

// Each pass with what it changed.
Table pass_table(std::span<const cost::PassRecord> passes);

// Classes of memory at the highest point of the step.
Table memory_table(const record::MemoryRecord& memory);

// Predicted beside measured for the change that was tried.
Table trial_table(const record::TrialRecord& trial);

}  // namespace ridge::report
