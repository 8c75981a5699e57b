// SPDX-License-Identifier: Apache-2.0
// ridge demo: lessons about performance, each a claim, a prediction, a measurement and a picture.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "apps/bench_run.h"
#include "base/error.h"
#include "base/nearest_name.h"
#include "base/printable.h"
#include "base/units.h"
#include "courses/demos/demo.h"
#include "report/bench_table.h"

namespace ridge::apps {
namespace {

struct DemoOptions {
  std::string name = "list";
  std::string budget = "60s";
  bool json = false;
  OutputOptions output;
  MachineOptions machine;
};

std::vector<const courses::Demo*> chosen(const std::string& name) {
  std::vector<const courses::Demo*> all;
  std::vector<std::string> known{"list", "all"};
  for (const courses::Demo& each : courses::demos()) {
    if (name == "all" || each.name == name) all.push_back(&each);
    known.emplace_back(each.name);
  }
  if (all.empty())
    throw usage_error("[demo] expected list, all or one of {}, got {}{}", courses::demo_names(),
                      printable(name), did_you_mean(name, known));
  return all;
}

void print_list(const DemoOptions& o, const TerminalOptions& terminal) {
  if (o.json) {
    fmt::print("{}", courses::demos_json());
    return;
  }
  for (const courses::Demo& each : courses::demos())
    fmt::print("{}\n{}", each.name, wrap_lines(each.claim, terminal.columns, "  "));
}

void run(const DemoOptions& o, const Command& app, const AppContext& context) {
  app.refuse_unused({{o.name == "list",
                      "with list",
                      {"--budget", "--out", "--force", "--device", "--threads", "--isa"}},
                     without_folder(o.output)});
  if (o.name == "list") return print_list(o, context.terminal);
  const std::vector<const courses::Demo*> demos = chosen(o.name);
  const double budget_ns = parse_budget_ns(o.budget, "budget") / static_cast<double>(demos.size());
  BenchRunOptions options;
  options.machine = o.machine;
  options.json = o.json;
  options.output = o.output;
  // Each demo is a folder of its own in that of all.
  if (o.output.folder && demos.size() > 1) options.output.folder.reset();
  const bool is_many = demos.size() > 1;
  if (is_many && o.output.folder) {
    const OutputFolder checked(*o.output.folder, o.output.overwrite);
    std::filesystem::create_directories(checked.path());
  }
  BenchRun run(options, context, false);
  std::vector<record::BenchRecord> all;
  for (const courses::Demo* each : demos) {
    courses::Fixture fixture(
        [&](const passes::Selection& selection) -> backends::Backend& {
          return run.trials().backend(selection);
        },
        run.trials().ceilings(), budget_ns, [&] { return run.is_stopped(); });
    record::BenchRecord record = courses::show(*each, std::move(fixture));
    if (each != demos.front() && !o.json) fmt::print("\n");
    const std::string folder =
        is_many && o.output.folder ? *o.output.folder + "/" + std::string(each->name) : "";
    run.print(record, folder, is_many && o.json);
    all.push_back(std::move(record));
    if (run.is_stopped()) break;
  }
  if (is_many && o.json) fmt::print("{}", report::benches_json(all));
  run.end();
}

}  // namespace

void register_demo(Command program, const AppContext& context) {
  auto o = std::make_shared<DemoOptions>();
  Command app = program.add_subcommand(
      "demo", "Lessons about performance, predicted and measured on this machine");
  app.add_option("NAME", o->name, "list (shows the names), all, or the name of a demo");
  app.add_option(
      "--budget", o->budget,
      "time for the measurements, of all together: 60s, 2m; points beyond it are predicted");
  add_output_options(
      app, o->output,
      "folder for bench.json and report.html with the chart; for all, a folder each");
  app.add_json_flag(o->json);
  add_machine_options(app, o->machine);
  app.footer(
      "Each demo is one short file of src/courses/demos.\n"
      "Examples:\n"
      "  ridge demo list\n"
      "  ridge demo fusion --budget 5s\n"
      "  ridge demo kv-cache --budget 5s --out kv-cache-demo");
  app.callback([o, app, &context] { run(*o, app, context); });
}

}  // namespace ridge::apps
