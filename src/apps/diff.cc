// SPDX-License-Identifier: Apache-2.0
// ridge diff: compares two output folders run by run and op by op, and separates differences from
// noise.
#include <fmt/format.h>

#include <memory>

#include "apps/subcommand.h"
#include "base/error.h"
#include "report/command_text.h"

namespace ridge::apps {
namespace {

struct DiffOptions {
  std::string before, after;
  bool json = false;
  bool verbose = false;
};

void run(const DiffOptions& o, const TerminalOptions& terminal) {
  const report::DiffSide a{o.before, record::read_summary(o.before)};
  const report::DiffSide b{o.after, record::read_summary(o.after)};
  const std::vector<record::RunChange> runs = record::run_changes(a.file, b.file);
  if (runs.empty())
    throw usage_error("[diff] {} and {} have no run with the same model, level, batch and length",
                      o.before, o.after);
  fmt::print("{}", o.json ? report::json_text(report::diff_json(runs))
                          : report::diff_text(a, b, runs, terminal, o.verbose));
}

}  // namespace

void register_diff(Command program, const AppContext& context) {
  auto options = std::make_shared<DiffOptions>();
  Command app = program.add_subcommand("diff", "Compare two output folders op by op");
  app.add_option("A", options->before, "an output folder of ridge lab, infer-lab, train or import")
      .required();
  app.add_option("B", options->after, "an output folder to compare with A").required();
  app.add_verbose_flag(options->verbose).excludes(app.add_json_flag(options->json));
  app.footer(
      "Examples:\n"
      "  ridge lab --preset tiny --out before\n"
      "  ridge lab --preset tiny --pass -fuse_glu --out after\n"
      "  ridge diff before after");
  app.callback([options, &context] { run(*options, context.terminal); });
}

}  // namespace ridge::apps
