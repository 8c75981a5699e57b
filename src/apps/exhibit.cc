// SPDX-License-Identifier: Apache-2.0
// ridge exhibit: lessons about performance, each a claim, a prediction, a measurement and a picture.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>

#include "apps/bench_run.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "bench/exhibits/exhibit.h"
#include "report/bench_files.h"
#include "report/bench_table.h"

namespace ridge::apps {
namespace {

struct ExhibitOptions {
  std::string name;
  std::string budget = "60s";
  bool json = false;
  OutputOptions output;
  MachineOptions machine;
};

std::vector<const bench::Exhibit*> chosen(const std::string& name) {
  std::vector<const bench::Exhibit*> all;
  std::vector<std::string> known{"list", "all"};
  for (const bench::Exhibit& each : bench::exhibits()) {
    if (name == "all" || each.name == name) all.push_back(&each);
    known.emplace_back(each.name);
  }
  if (all.empty())
    throw usage_error("[exhibit] expected list, all or one of {}, got {}{}", bench::exhibit_names(),
                      printable(name), did_you_mean(name, known));
  return all;
}

void print_list(const ExhibitOptions& o, const TerminalOptions& terminal) {
  if (o.json) {
    report::Json json = report::Json::array();
    for (const bench::Exhibit& each : bench::exhibits())
      json.push_back({{"name", each.name}, {"claim", each.claim}});
    fmt::print("{}", report::json_text(json));
    return;
  }
  for (const bench::Exhibit& each : bench::exhibits())
    fmt::print("{}\n{}", each.name, wrap_lines(each.claim, terminal.columns, "  "));
}

void run(const ExhibitOptions& o, const Command& app, const AppContext& context) {
  app.refuse_unused({{o.name == "list",
                      "with list",
                      {"--budget", "--out", "--force", "--device", "--threads", "--isa"}},
                     without_folder(o.output)});
  if (o.name == "list") return print_list(o, context.terminal);
  const std::vector<const bench::Exhibit*> exhibits = chosen(o.name);
  const double budget_ns = parse_budget_ns(o.budget) / static_cast<double>(exhibits.size());
  BenchRunOptions options;
  options.machine = o.machine;
  options.json = o.json;
  options.output = o.output;
  // Each exhibit is a folder of its own in that of all.
  if (o.output.folder && exhibits.size() > 1) options.output.folder.reset();
  const bool is_many = exhibits.size() > 1;
  if (is_many && o.output.folder) {
    const OutputFolder checked(*o.output.folder, o.output.overwrite);
    std::filesystem::create_directories(checked.path());
  }
  BenchRun run(options, context, false);
  report::Json all = report::Json::array();
  for (const bench::Exhibit* each : exhibits) {
    bench::Stand stand(
        [&](const passes::Selection& selection) -> backends::Backend& {
          return run.backend(selection);
        },
        run.ceilings(), budget_ns, [&] { return run.is_stopped(); });
    record::BenchRecord record = bench::show(*each, std::move(stand));
    if (each != exhibits.front() && !o.json) fmt::print("\n");
    const std::string folder =
        is_many && o.output.folder ? *o.output.folder + "/" + std::string(each->name) : "";
    all.push_back(run.print(std::move(record), folder, is_many && o.json));
    if (run.is_stopped()) break;
  }
  if (is_many && o.json) fmt::print("{}", report::json_text(all));
  run.end();
}

}  // namespace

void register_exhibit(Command program, const AppContext& context) {
  auto o = std::make_shared<ExhibitOptions>();
  Command app = program.add_subcommand(
      "exhibit", "Lessons about performance, predicted and measured on this machine");
  app.add_option("NAME", o->name, "list, all, or the name of an exhibit").required();
  app.add_option(
         "--budget", o->budget,
         "time for the measurements, of all together: 60s, 2m; points beyond it are predicted")
      .show_default();
  add_output_options(
      app, o->output,
      "folder for bench.json and report.html with the chart; for all, a folder each");
  app.add_json_flag(o->json);
  add_machine_options(app, o->machine);
  app.footer(
      "Each exhibit is one short file of src/bench/exhibits.\n"
      "Examples:\n"
      "  ridge exhibit list\n"
      "  ridge exhibit fusion --budget 5s\n"
      "  ridge exhibit kv-cache --budget 5s --out kv-cache-exhibit");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
