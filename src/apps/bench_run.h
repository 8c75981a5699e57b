// SPDX-License-Identifier: Apache-2.0
// The options, the machine and the output that the subcommands of `ridge bench`, `ridge demo` and
// `ridge study` share. Not a subcommand.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "apps/output_options.h"
#include "apps/rank_options.h"
#include "apps/subcommand.h"
#include "apps/this_machine.h"
#include "bench/trial_runner.h"
#include "record/bench_record.h"

namespace ridge::apps {

// The subcommands of `ridge bench`.
void add_bench_attention(Command bench, const AppContext& context);
void add_bench_graph(Command bench, const AppContext& context);
void add_bench_model(Command bench, const AppContext& context);
void add_bench_module(Command bench, const AppContext& context);
void add_bench_op(Command bench, const AppContext& context);
void add_bench_serve(Command bench, const AppContext& context);
void add_bench_shapes(Command bench, const AppContext& context);

struct BenchRunOptions {
  std::string hardware = "this";
  double enqueue_us = 0;  // 0: as measured or assumed
  bool is_planned_only = false;
  bool is_counts = false;  // plans, and shows counts alone
  bool is_cold = false;
  bool is_warm = false;
  bool profiles = false;  // the run folder of a profile is written too
  double seconds = 0.5;   // for the samples of a point
  std::string format = "table";
  bool json = false;
  OutputOptions output;
  MachineOptions machine;
  RankOptions ranks = {};  // benches that several processes may measure together have them

  // Whether a data sheet of a GPU is planned for.
  bool is_gpu_sheet() const { return hardware != "this" && planning::is_gpu_plan(hardware, false); }
  bool runs_nothing() const { return is_planned_only || is_counts; }
  bool runs_here() const { return !runs_nothing() && hardware == "this"; }
};
// --format; -o and --output are its older names, which scripts may use.
void add_text_format_option(Command app, std::string& format);
// Throws a usage Error for an unknown format.
void check_text_format(const std::string& format);
// --hardware, --plan, --format, --out, --force, --json and the machine's options
void add_bench_place_options(Command app, BenchRunOptions& options);
// The same, --counts, --cold, --warm and --seconds
void add_bench_run_options(Command app, BenchRunOptions& options);
// --profile; to be added last.
void add_profile_option(Command app, BenchRunOptions& options);
// A record with the program, the command and the time, for files.
record::LabRecord about(const AppContext& context);
// Throws usage Errors for combinations without effect and for values out of range.
void check(const BenchRunOptions& options, const Command& app);

// The machine and the output of a bench. The first Ctrl-C ends it after the present point.
class BenchRun {
 public:
  BenchRun(const BenchRunOptions& options, const AppContext& context, bool tf32);

  bool is_stopped() const { return o_.ranks.any(interrupt_.is_set()); }
  bench::TrialRunner& trials() { return *trials_; }

  const AppContext& context() const { return context_; }

  // Adds the machine to the record, writes the folder, which is that of the options or `folder` if
  // this is not empty, and prints the record in the chosen format unless `is_quiet`.
  void print(record::BenchRecord& record, const std::string& folder = "", bool is_quiet = false);
  // Ends the program by SIGINT if Ctrl-C was pressed.
  void end() const;

 private:
  const BenchRunOptions& o_;
  const AppContext& context_;
  std::optional<OutputFolder> folder_;
  std::optional<planning::TargetHardware> place_;  // empty: this machine
  InterruptRequest interrupt_;
  std::optional<bench::TrialRunner> trials_;
};
// Prints the record and ends; a single point that could not be run is an Error.
void finish(BenchRun& run, record::BenchRecord record);
// Measures under a progress bar of `count` units (0: unknown), then finishes.
void show(BenchRun& run,
          const std::string& label,
          int64_t count,
          const std::string& unit,
          const std::function<record::BenchRecord(const bench::PointListener&)>& measure);

}  // namespace ridge::apps
