// SPDX-License-Identifier: Apache-2.0
// Chooses the machine of a bench and prints its record. Not a subcommand.
#include "apps/bench_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "apps/this_machine.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "bench/trial_profile.h"
#include "cost/hardware.h"
#include "report/bench_table.h"
#include "report/profile_report.h"

namespace ridge::apps {
namespace {

constexpr double kMostSeconds = 3600;

passes::Selection plain(bool tf32) { return {"baseline", tf32 ? "+tf32" : ""}; }

planning::TargetHardware place_of(const BenchRunOptions& o,
                                  bool tf32,
                                  const TerminalOptions& terminal) {
  planning::TargetHardware place =
      planning::choose_hardware(o.hardware, this_machine(o.machine, plain(tf32), terminal), tf32);
  planning::set_enqueue_time(place, o.enqueue_us);
  return place;
}

}  // namespace

record::LabRecord about(const AppContext& context) {
  record::LabRecord lab;
  lab.program = kProgram;
  lab.command = context.command;
  lab.finished_at = utc_now();
  return lab;
}

void add_text_format_option(Command app, std::string& format) {
  app.add_option(
      "--format,-o,--output", format,
      "form of the text to print: table, md, csv or json (-o and --output are older names)");
}

void check_text_format(const std::string& format) {
  const char* const formats[] = {"table", "md", "csv", "json"};
  if (std::find(std::begin(formats), std::end(formats), format) == std::end(formats))
    throw usage_error(
        "[format] expected --format table, md, csv or json, got {}; --out DIR writes files",
        printable(format));
}

void add_bench_place_options(Command app, BenchRunOptions& o) {
  app.add_option("--hardware", o.hardware,
                 "count and predict for another machine: " + cost::hardware_names() +
                     ", or a JSON file as of ridge plan; nothing is run");
  add_enqueue_option(app, o.enqueue_us);
  app.add_flag("--plan", o.is_planned_only, "count and predict for this machine; run nothing");
  add_text_format_option(app, o.format);
  add_output_options(app, o.output, "folder for bench.json and report.html");
  app.add_json_flag(o.json);
  add_machine_options(app, o.machine);
}

void add_bench_run_options(Command app, BenchRunOptions& o) {
  app.add_flag("--counts", o.is_counts,
               "show kernels, FLOPs, MACs and bytes in full, and no times; run nothing");
  app.add_flag(
      "--cold", o.is_cold,
      "read other copies of the operands in each run, which no cache holds together: for ops "
      "between others that fill the caches");
  app.add_flag("--warm", o.is_warm, "read the same operands in each run (the default)");
  app.add_option("--seconds", o.seconds,
                 "seconds of measuring for each point; more give a narrower interval");
  add_bench_place_options(app, o);
}

void add_profile_option(Command app, BenchRunOptions& o) {
  app.add_flag(
      "--profile", o.profiles,
      "also profile each point: kernels by name on the terminal, and in --out (default: profile-out) "
      "the files of a run, with trace, timeline and memory");
}

void check(const BenchRunOptions& o, const Command& app) {
  const bool is_planned = o.runs_nothing() || o.hardware != "this";
  app.refuse_unused(
      {without_folder(o.output),
       {is_planned, "where nothing is run", {"--cold", "--warm", "--seconds", "--profile"}},
       {o.is_cold, "with --cold", {"--profile"}},
       {o.hardware != "this", "with --hardware", {"--device", "--threads", "--isa", "--plan"}},
       {o.hardware == "this", "without --hardware", {"--enqueue-us"}},
       {o.is_counts, "with --counts", {"--plan"}},
       {o.json, "with --json", {"--format"}}});
  if (o.is_cold && o.is_warm) throw usage_error("[cold] expected --cold or --warm, got both");
  if (!(o.seconds > 0 && o.seconds <= kMostSeconds))
    throw usage_error("[seconds] expected more than 0 and at most {:g}, got {:g}", kMostSeconds,
                      o.seconds);
  check_text_format(o.format);
  if (o.is_counts && (o.json || o.format == "csv" || o.format == "json"))
    throw usage_error("[counts] --counts is for tables: csv and json have all counts in full");
}

BenchRun::BenchRun(const BenchRunOptions& o, const AppContext& context, bool tf32)
    : o_(o),
      context_(context),
      folder_(!o.ranks.is_first() ? std::nullopt
              : o.profiles        ? OutputFolder(o.output, "profile-out")
                                  : requested_folder(o.output)),
      interrupt_("\nEnding after this point; a second Ctrl-C ends at once.\n") {
  if (o.hardware != "this") place_ = place_of(o, tf32, context.terminal);
  trials_.emplace(bench::TrialRunner::Setting{
      .runs = !o.runs_nothing(),
      .predicts = !o.is_counts,
      .profiles = o.profiles,
      .caches = o.is_cold ? bench::Caches::kCold : bench::Caches::kWarm,
      .budget_ns = 1e9 * o.seconds,
      .is_stopped = [this] { return is_stopped(); },
      .make_backend = [this](const passes::Selection& s) { return make_backend(o_.machine, s); },
      .planned = place_ ? place_->planned.get() : nullptr,
      .replaying = place_ ? place_->replaying.get() : nullptr});
  if (!place_) trials_->backend(plain(tf32));  // sets threads and ISA
  if (place_)
    trials_->set_ceilings(place_->ceilings);
  else if (!o.is_counts)
    trials_->set_ceilings(machine_ceilings(o.machine, {.tf32 = tf32}, context.terminal));
}

void BenchRun::print(record::BenchRecord& bench, const std::string& folder, bool is_quiet) {
  const cost::Ceilings& ceilings = trials_->ceilings();
  bench.threads = place_ ? 0 : ceilings.machine.threads;
  bench.is_interrupted = is_stopped();
  bench.is_counts = o_.is_counts;
  if (place_) {
    bench.device = place_->title;
    bench::add_sheet_notes(ceilings, bench);
  } else {  // counts depend on the kernels, not on the machine
    bench.device = o_.is_counts ? (is_gpu(o_.machine) ? "cuda" : "cpu") : ceilings.machine.device;
  }
  const bool is_empty = bench.points.empty() && bench.values.empty();
  if (!folder.empty() && !is_empty) folder_.emplace(folder, o_.output.overwrite);
  std::string profiles;
  if (folder_ && !is_empty) {
    record::LabRecord lab = about(context_);
    lab.ceilings = ceilings;
    lab = bench::profile_lab(std::move(lab), bench, o_.machine);
    folder_->commit(report::profile_files(lab, bench));
    profiles = report::profile_text(lab, context_.terminal);
    if (!profiles.empty()) profiles += written_text(*folder_, context_.terminal);
  }
  const std::string format = o_.json ? "json" : o_.format;
  if (is_quiet) return;
  if (is_empty && format != "csv" && format != "json")
    fmt::print(stderr, "Nothing was complete.\n");
  else
    fmt::print("{}{}", report::bench_text(bench, format, context_.terminal),
               format == "csv" || format == "json" ? "" : profiles);
}

void BenchRun::end() const {
  if (is_stopped()) end_by_interrupt();
}

void finish(BenchRun& run, record::BenchRecord bench) {
  run.print(bench);
  run.end();
  if (bench.points.size() != 1 || bench.points[0].refused.empty()) return;
  const record::BenchPoint& point = bench.points[0];
  throw point.lacks_memory ? memory_error("[bench] {}", point.refused)
                           : usage_error("[bench] {}", point.refused);
}

void show(BenchRun& run,
          const std::string& label,
          int64_t count,
          const std::string& unit,
          const std::function<record::BenchRecord(const bench::PointListener&)>& measure) {
  Progress progress(label, count, unit, run.context().terminal);
  record::BenchRecord record =
      measure([&](int64_t points, const std::string& note) { progress.tick(points, note); });
  progress.hide();
  finish(run, std::move(record));
}

}  // namespace ridge::apps
