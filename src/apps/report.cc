// SPDX-License-Identifier: Apache-2.0
// ridge report: makes report.html from output folders, also from those of older versions, and
// pictures (SVG).
#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/subcommand.h"
#include "base/error.h"
#include "files/atomic_file.h"
#include "report/bench_chart.h"
#include "report/report_page.h"

namespace ridge::apps {
namespace {

namespace fs = std::filesystem;

struct ReportOptions {
  std::vector<std::string> folders;
  std::optional<std::string> output;
  std::optional<std::string> losses;
  std::optional<std::string> chart;
  std::optional<std::string> roofline;
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

// Both pictures, or one of them, of a single folder.
void draw_points(const ReportOptions& o, const TerminalOptions& terminal) {
  if (o.folders.size() != 1)
    throw usage_error("[report] --{} expects one folder, got {}", o.chart ? "chart" : "roofline",
                      o.folders.size());
  const report::RunFolder folder = report::read_run_folder(o.folders[0]);
  std::vector<std::pair<std::string, std::string>> pictures;
  if (o.chart) pictures.emplace_back(*o.chart, report::bench_chart(folder));
  if (o.roofline) pictures.emplace_back(*o.roofline, report::roofline_chart(folder));
  for (const auto& [file, picture] : pictures) {
    files::write_file(file, picture, files::Links::kFollow);
    tell_written(file, terminal);
  }
}

void run(const ReportOptions& o, const TerminalOptions& terminal) {
  if (o.losses) return draw_losses(o, terminal);
  if (o.chart || o.roofline) return draw_points(o, terminal);
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
  app.add_option(
         "DIR", o->folders,
         "output folders of ridge lab, train, infer-lab, import, bench, demo and study, or logs of ridge "
         "train --log-dir")
      .required();
  app.add_option(
      "--losses", o->losses,
      "draw the losses of folders of ridge train --log-dir into this file (SVG) instead");
  app.add_option("--chart", o->chart,
                 "draw the times of a folder of ridge bench, demo or study into this file (SVG) "
                 "instead: over the size that varies, or a bar for each form; of ridge lab or "
                 "train, a stacked bar for each instrumented step");
  app.add_option("--roofline", o->roofline,
                 "draw a folder's roofline into this file (SVG) instead; goes with --chart");
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
      "  ridge report run                       the losses of the log\n"
      "  ridge report run --losses losses.svg\n"
      "  ridge bench op matmul --sweep n=k=m=64:256*2 --plan --out gemms\n"
      "  ridge report gemms --chart times.svg --roofline roofline.svg");
  app.callback([o, app, &context] {
    app.refuse_unused(
        {{o->losses.has_value(), "with --losses", {"--output", "--open", "--chart", "--roofline"}},
         {o->chart.has_value(), "with --chart", {"--output", "--open"}},
         {o->roofline.has_value(), "with --roofline", {"--output", "--open"}}});
    run(*o, context.terminal);
  });
}

}  // namespace ridge::apps
