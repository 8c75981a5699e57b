// SPDX-License-Identifier: Apache-2.0
// ridge report: makes report.html from output folders, also from those of older versions, and pictures of losses.
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>

#include "apps/subcommand.h"
#include "base/error.h"
#include "files/atomic_file.h"
#include "report/loss_chart.h"
#include "report/report_page.h"

namespace ridge::apps {
namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::vector<std::string> folders;
  std::optional<std::string> output;
  std::optional<std::string> losses;
  bool open = false;
};

// Replaces this program by the desktop's opener; returns only if there is none.
void open_in_browser(const fs::path& file) {
  std::fflush(stdout);
  ::execlp("xdg-open", "xdg-open", file.c_str(), nullptr);
  throw runtime_error("[open] found no xdg-open; open {} in a browser", file.string());
}

void tell_written(const fs::path& file, const TerminalOptions& terminal) {
  fmt::print("{}",
             wrap_lines(fmt::format("Wrote {}.", terminal_safe(file.string())), terminal.columns));
}

void draw_losses(const ReportOptions& o, const TerminalOptions& terminal) {
  std::vector<report::LossCurve> curves;
  for (const std::string& each : o.folders) curves.push_back(report::read_loss_curve(each));
  files::write_file(*o.losses, report::loss_chart(curves), files::Links::kFollow);
  tell_written(*o.losses, terminal);
}

void run(const ReportOptions& o, const TerminalOptions& terminal) {
  if (o.losses) return draw_losses(o, terminal);
  const fs::path file = o.output                ? fs::path(*o.output)
                        : o.folders.size() == 1 ? fs::path(o.folders[0]) / "report.html"
                                                : fs::path("report.html");
  std::vector<report::RunFolder> folders;
  for (const std::string& each : o.folders) folders.push_back(report::read_run_folder(each));
  files::write_file(file, report::report_page(folders),
                    o.output ? files::Links::kFollow : files::Links::kReplace);
  tell_written(file, terminal);
  if (o.open) open_in_browser(fs::absolute(file));
}

}  // namespace

void register_report(Command program, const AppContext& context) {
  auto o = std::make_shared<ReportOptions>();
  Command app = program.add_subcommand("report", "Make the web page of one or more output folders");
  app.add_option("DIR", o->folders, "output folders of ridge lab, train, infer-lab and import")
      .required();
  app.add_option(
      "--losses", o->losses,
      "draw the losses of folders of ridge train --log-dir into this file (SVG) instead");
  app.add_option("-o,--output", o->output,
                 "file to write (default: report.html in the folder; for several folders, here)");
  app.add_flag("--open", o->open, "open the page in the browser");
  app.footer(
      "The page is one file that needs no network. Several folders are compared in it.\n"
      "Examples:\n"
      "  ridge lab --preset tiny --out fused\n"
      "  ridge report fused\n"
      "  ridge lab --preset tiny --pass -fuse_glu --out unfused\n"
      "  ridge report fused unfused -o comparison.html\n"
      "  ridge train --preset tiny --steps 200 --log-dir run\n"
      "  ridge report run --losses losses.svg");
  app.callback([o, app, &context] {
    app.refuse_unused({{o->losses.has_value(), "with --losses", {"--output", "--open"}}});
    run(*o, context.terminal);
  });
}

}  // namespace ridge::apps
