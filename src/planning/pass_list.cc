// SPDX-License-Identifier: Apache-2.0
// Formats the lists of passes.
#include "planning/pass_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "backends/cpu/passes/passes.h"
#include "backends/cuda/passes/passes.h"
#include "base/error.h"
#include "passes/pipeline.h"
#include "report/json_text.h"
#include "report/terminal.h"

namespace ridge::planning {
namespace {

using report::Json;
using report::wrap_lines;

const passes::Pass& pass_of(const passes::Listed& line) {
  if (line.pass != nullptr) return *line.pass;
  std::span<const passes::Pass* const> of_backend =
      line.backend == "cpu" ? backends::cpu::passes() : backends::cuda::passes();
  auto found = std::find_if(of_backend.begin(), of_backend.end(),
                            [&](const passes::Pass* pass) { return pass->name == line.name; });
  RIDGE_CHECK(found != of_backend.end(), "the {} backend has no pass '{}'", line.backend,
              line.name);
  return **found;
}

bool has_level(const passes::Listed& line) { return line.level != "none"; }

}  // namespace

std::string pass_list_text(int columns) {
  constexpr std::string_view kIndent = "    ";
  constexpr const char* kLine = "{:<28}{:<9}{:<9}{:<11}{}\n";
  std::string text = fmt::format(kLine, "pass", "stage", "backend", "used for", "level");
  for (const passes::Listed& line : passes::list()) {
    const passes::Pass& pass = pass_of(line);
    text += fmt::format(kLine, pass.name, name(pass.stage), line.backend, name(pass.serves),
                        has_level(line) ? line.level : "-");
    text += wrap_lines(pass.summary, columns, kIndent);
    if (!pass.trade.empty())
      text += wrap_lines(fmt::format("trade-off: {}", pass.trade), columns, kIndent);
  }
  text += "\n--pass also switches these options, which do not change the graph:\n";
  for (const passes::Option& option : passes::options()) {
    text += fmt::format("{:<57}{}\n", option.name, option.level == "none" ? "-" : option.level);
    text += wrap_lines(option.summary, columns, kIndent);
  }
  return text;
}

std::string pass_list_json() {
  Json json = Json::array();
  for (const passes::Listed& line : passes::list()) {
    const passes::Pass& pass = pass_of(line);
    json.push_back({{"pass", pass.name},
                    {"stage", name(pass.stage)},
                    {"backend", line.backend},
                    {"serves", name(pass.serves)},
                    {"level", has_level(line) ? Json(line.level) : nullptr},
                    {"summary", pass.summary},
                    {"trade", pass.trade}});
  }
  return report::json_text(json);
}

std::string passes_off_text(const passes::Selection& selection,
                            std::span<const passes::Pass* const> of_backend,
                            bool verbose,
                            int columns) {
  constexpr const char* kTitle = "Passes that are off (--pass +NAME turns one on):";
  std::string names, lines;
  for (const passes::Pass* pass : passes::pipeline(of_backend)) {
    if (selection.has(pass->name)) continue;
    names += (names.empty() ? " " : ", ") + std::string(pass->name);
    lines += fmt::format("  {}\n{}", pass->name, wrap_lines(pass->summary, columns, "    "));
  }
  return verbose ? fmt::format("\n{}\n{}", kTitle, lines)
                 : wrap_lines(kTitle + names + ".", columns);
}

}  // namespace ridge::planning
