// SPDX-License-Identifier: Apache-2.0
// Tables of a lab: the ladder of levels, the sweep, operations, passes, memory, advice. Each is a
// base Table, which the terminal and Markdown both print.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "record/lab_record.h"
#include "record/operation_table.h"
#include "report/terminal.h"

namespace ridge::report {

// Stands beside every table whose shares of a roof are over 100%.
inline constexpr const char* kOverRoof =
    "over 100% means that operands came from a cache instead of memory, or that the roof was "
    "measured too low (ridge machine --remeasure)";

// Cells for a median, for its interval (with its coverage if there are too few samples for 95%),
// and for a predicted time with its error.
std::string time_cell(const Summary& summary);
std::string interval_cell(const Summary& summary);
std::string prediction_cell(double predicted_ns, double measured_ns);
std::string mfu_cell(const record::LabRecord& lab, const record::RunRecord& run);
std::string part_of(int64_t part_ns, int64_t wall_ns);  // "12.3%"
std::string percent_cell(double share);                 // "12.3%"
// The same, and a rate in a unit per second; "-" where it is not known.
std::string share_cell(double share);
std::string rate_cell(double per_ns, const char* unit);
// "1.27 s +-2.2%": a median, and half its interval as a share of it. Whoever shows it says below
// the table if an interval covers less than 95%.
std::string spread_cell(const Summary& summary);

// A row of a ladder, which has one column per run.
struct LadderLine {
  const char* label;
  std::function<std::string(const record::RunRecord&)> cell;
};
// Kernels that run next to each other count in the phases of both: with the overlap, and the idle
// and host's time, the phases add up to the step.
std::vector<LadderLine> phase_lines(const record::LabRecord& lab);
// A ladder without rows, and its rows. `runs` is one of record::ladders(lab).
Table empty_ladder(const std::string& title,
                   const record::LabRecord& lab,
                   std::span<const size_t> runs);
void add_lines(const std::vector<LadderLine>& lines,
               const record::LabRecord& lab,
               std::span<const size_t> runs,
               Table& table);

// One column per run, one row per quantity.
Table ladder_table(const record::LabRecord& lab, std::span<const size_t> runs);

// "+0.4% (-0.3% - +1.1%)": the extra time of instrumented steps over the plain steps next to them.
std::string profiling_cost(const record::RunRecord& run);
std::string profiling_cost_of_run(const record::RunRecord& run);

// One row per run, if there are several batch sizes or lengths.
Table sweep_table(const record::LabRecord& lab);

// Whether kernels overlapped for more than 1% of the kernel time.
bool side_by_side(const record::StepRecord& step);
// Whether another program measured the run: its steps are plain and instrumented at once.
bool is_of_another_program(const record::RunRecord& run);
// The sentences on the times in tables, and on the cost of measuring them.
std::string times_note(const record::RunRecord& run);

// Kernels profiled in the instrumented step with the median wall time.
int64_t kernels_profiled(const record::StepRecord& step);
// Lists the ops that ran more or fewer kernels than planned; empty if there are none.
std::string kernel_count_note(const record::StepRecord& step);
// The same for several runs, one line per run, each starting with its level.
std::vector<std::string> kernel_count_notes(const record::LabRecord& lab,
                                            std::span<const size_t> runs);

// ", 4 threads"; empty for a run of another program, whose threads are not known.
std::string threads_part(const record::Setting& setting);

// One row per key, then idle, host and the whole step. `most` limits the rows of flat tables (0: no
// limit); the rest is summed in one row.
Table operation_table(const record::OperationTable& table,
                      const record::StepRecord& step,
                      size_t most = 0);

// The `most` largest rows, the sum of the others, idle and host time, and the step, in the columns
// that fit 100. `name` says in the header which run it is; empty: only one is shown.
Table brief_operation_table(const record::OperationTable& table,
                            const record::StepRecord& step,
                            size_t most,
                            const std::string& name);

// The passes and the changes that each made.
Table pass_table(std::span<const cost::PassRecord> passes);

// Classes of memory at the step's peak.
Table memory_table(const record::MemoryRecord& memory);
// Its classes and what the program owns.
Table live_memory_table(const record::MemoryRecord& memory);

// "93%"; 99% for all above, as errors are no better known.
std::string confidence_text(double confidence);
// "predicted +3.1% tokens/s (confidence 93%), -2.0% owned memory, another training"
std::string gains_text(const record::AdviceRecord& advice);

// Predicted and measured values of a change that was tried.
Table trial_table(const record::TrialRecord& trial);

// Has the `most` ops with the longest times among those that do arithmetic, with their FLOPs per
// planned byte. Returns a sentence instead of the table if no ceilings are known.
std::string roofline(const record::LabRecord& lab,
                     const record::RunRecord& run,
                     const TerminalOptions& options,
                     size_t most = 12);

}  // namespace ridge::report
