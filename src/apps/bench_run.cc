// SPDX-License-Identifier: Apache-2.0
// Chooses the machine of a bench and prints its record. Not a subcommand.
#include "apps/bench_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "apps/environment.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/printable.h"
#include "base/units.h"
#include "cost/hardware.h"
#include "report/bench_files.h"
#include "report/bench_table.h"

namespace ridge::apps {
namespace {

constexpr double kMostSeconds = 3600;

passes::Selection plain(bool tf32) { return {"baseline", tf32 ? "+tf32" : ""}; }

record::LabRecord about(const AppContext& context, const cost::Ceilings& ceilings) {
  record::LabRecord lab;
  lab.program = kProgram;
  lab.command = context.command;
  lab.finished_at = utc_now();
  lab.ceilings = ceilings;
  return lab;
}

std::string heading(const record::BenchRecord& bench) {
  const std::string& about = bench.claim.empty() ? bench.formula : bench.claim;
  std::string text = about.empty() ? bench.name : bench.name + ": " + about;
  text += fmt::format("\n{}", terminal_safe(bench.device, kLongestMessage));
  if (bench.threads > 0)
    text += fmt::format(", {} thread{}", bench.threads, bench.threads == 1 ? "" : "s");
  return text + ", " + bench.dtype;
}

// The rates of a data sheet and the FLOPs per byte from which its memory is fast enough for its GEMMs; empty for machines
// that were measured.
std::string ridge_points(const cost::Ceilings& ceilings) {
  if (ceilings.levels.empty()) return "";
  const double bandwidth = ceilings.levels.back().theoretical_bytes_per_ns;
  std::string text;
  for (const cost::ProductRates& each : ceilings.products)
    if (each.theoretical_flops_per_ns > 0 && bandwidth > 0)
      text += fmt::format("; {} {}, {:.2f} FLOP/B", each.name(),
                          format_rate(1e9 * each.theoretical_flops_per_ns, "FLOP/s"),
                          each.theoretical_flops_per_ns / bandwidth);
  return text.empty() ? ""
                      : fmt::format("data sheet, with ridge points: memory {}{}",
                                    format_rate(1e9 * bandwidth, "B/s"), text);
}

}  // namespace

double parse_budget_ns(const std::string& text) {
  constexpr double kMostBudget = 24 * 3600;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const std::string unit(end, text.data() + text.size() - end);
  const double seconds = unit == "m" ? 60 * value : value;
  if (error != std::errc() || (unit != "" && unit != "s" && unit != "m") ||
      !(seconds > 0 && seconds <= kMostBudget))
    throw usage_error(
        "[budget] expected a time such as 60s or 2m, above 0 and at most a day, got {}",
        printable(text));
  return 1e9 * seconds;
}

void add_text_format_option(Command app, std::string& format) {
  app.add_option("--format,-o,--output", format,
                 "text to print: table, md, csv or json (-o and --output are older names)")
      .show_default();
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
                     ", or a JSON file as of ridge plan; nothing is run")
      .show_default();
  app.add_flag("--plan", o.is_planned_only, "count and predict for this machine; run nothing");
  add_text_format_option(app, o.format);
  add_output_options(app, o.output, "folder for bench.json and report.html");
  app.add_json_flag(o.json);
  add_machine_options(app, o.machine);
}

void add_bench_run_options(Command app, BenchRunOptions& o) {
  app.add_flag("--counts", o.is_counts,
               "show kernels, FLOPs, MACs and bytes in full, and no times; run nothing");
  app.add_flag("--cold", o.is_cold,
               "each run reads other copies of the operands, which no cache holds together");
  app.add_flag("--warm", o.is_warm, "each run reads the same operands (the default)");
  app.add_option("--seconds", o.seconds, "time for the samples of a point").show_default();
  add_bench_place_options(app, o);
}

void check(const BenchRunOptions& o, const Command& app) {
  const bool is_planned = o.runs_nothing() || o.hardware != "this";
  app.refuse_unused(
      {without_folder(o.output),
       {is_planned, "where nothing is run", {"--cold", "--warm", "--seconds"}},
       {o.hardware != "this", "with --hardware", {"--device", "--threads", "--isa", "--plan"}},
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

BenchRun::BenchRun(const BenchRunOptions& options, const AppContext& context, bool tf32)
    : o_(options),
      context_(context),
      folder_(requested_folder(options.output)),
      interrupt_("\nEnding after this point; a second Ctrl-C ends at once.\n") {
  if (o_.hardware != "this") {
    place_ = choose_place(o_.hardware, o_.machine, plain(tf32), context.terminal);
    ceilings_ = place_->ceilings;
    return;
  }
  backend(plain(tf32));  // sets threads and ISA
  if (!o_.is_counts) ceilings_ = machine_ceilings(o_.machine, tf32, context.terminal);
}

backends::Backend& BenchRun::backend(const passes::Selection& selection) {
  std::string key;
  for (const char* option : {"tune_gemm", "tf32", "capture", "branches"})
    if (selection.has(option)) key += option;
  std::unique_ptr<backends::Backend>& found = backends_[key];
  if (found == nullptr) found = make_backend(o_.machine, selection);
  return *found;
}

const passes::PassTarget& BenchRun::target(const passes::Selection& selection) {
  return place_ ? *place_->planned : backend(selection);
}

record::BenchPoint BenchRun::point(const bench::TrialGraph& trial, bench::TrialSetting setting) {
  setting.caches = o_.is_cold ? bench::Caches::kCold : bench::Caches::kWarm;
  setting.budget_ns = 1e9 * o_.seconds;
  setting.is_stopped = [this] { return is_stopped(); };
  if (place_ || o_.runs_nothing())
    return bench::plan_trial(trial, setting, target(setting.selection),
                             o_.is_counts ? nullptr : &ceilings_);
  return bench::run_trial(trial, setting, backend(setting.selection), &ceilings_);
}

std::string BenchRun::title() const {
  if (place_) return place_->title;
  // Counts depend on the kernels, not on the machine.
  return o_.is_counts ? chosen_device(o_.machine) : ceilings_.machine.device;
}

report::Json BenchRun::print(record::BenchRecord bench, const std::string& folder, bool is_quiet) {
  bench.device = title();
  bench.threads = place_ ? 0 : ceilings_.machine.threads;
  bench.is_interrupted = is_stopped();
  bench.is_counts = o_.is_counts;
  const TerminalOptions& terminal = context_.terminal;
  if (place_) {
    if (const std::string points = ridge_points(ceilings_); !points.empty())
      bench.notes.push_back(points);
    if (!o_.is_counts)
      for (const std::string& note : ceilings_.notes) bench.notes.push_back(note);
  }
  const report::Json json = report::bench_json(bench);
  const bool is_empty = bench.points.empty() && bench.values.empty();
  if (!folder.empty() && !is_empty) folder_.emplace(folder, o_.output.overwrite);
  if (folder_ && !is_empty)
    folder_->commit(report::bench_files(about(context_, ceilings_), bench.kind, json));
  if (is_quiet) return json;
  const std::string format = o_.json ? "json" : o_.format;
  if (format == "json")
    fmt::print("{}", report::json_text(json));
  else if (format == "csv")
    fmt::print("{}", report::bench_csv(bench));
  else if (is_empty)
    fmt::print(stderr, "Nothing was complete.\n");
  else if (format == "md")
    fmt::print("{}\n{}", report::bench_table(bench).markdown(),
               terminal_safe_text(report::bench_notes(bench)));
  else
    fmt::print("{}\n{}\n{}", wrap_lines(heading(bench), terminal.columns),
               report::bench_table(bench).text(terminal),
               wrap_lines(terminal_safe_text(report::bench_notes(bench)), terminal.columns));
  return json;
}

void BenchRun::end() const {
  if (is_stopped()) end_by_interrupt();
}

void BenchRun::finish(record::BenchRecord bench) {
  const bool is_one = bench.points.size() == 1;
  const std::string refused = is_one ? bench.points[0].refused : "";
  const bool lacks_memory = is_one && bench.points[0].lacks_memory;
  print(std::move(bench));
  end();
  if (!refused.empty())
    throw lacks_memory ? memory_error("[bench] {}", refused) : usage_error("[bench] {}", refused);
}

}  // namespace ridge::apps
