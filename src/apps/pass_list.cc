// SPDX-License-Identifier: Apache-2.0
// Lines of the list, each with its pass. Not a subcommand.
#include "apps/pass_list.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <span>
#include <string_view>
#include <utility>

#include "backends/cpu/passes/passes.h"
#include "backends/cuda/passes/passes.h"
#include "base/error.h"
#include "passes/pipeline.h"

namespace ridge::apps {
namespace {

const passes::Pass& pass_of(const passes::Listed& line) {
  if (line.pass != nullptr) return *line.pass;
  std::span<const passes::Pass* const> own =
      line.backend == "cpu" ? backends::cpu::passes() : backends::cuda::passes();
  auto found = std::find_if(own.begin(), own.end(),
                            [&](const passes::Pass* pass) { return pass->name == line.name; });
  RIDGE_CHECK(found != own.end(), "the {} backend has no pass '{}'", line.backend, line.name);
  return **found;
}

bool has_level(const passes::Listed& line) { return line.level != "none"; }

// The words on lines of `columns` at most, under the pass that they are about.
std::string wrapped(std::string_view text, size_t columns) {
  std::string lines, line = "   ";
  for (size_t at = 0; at < text.size();) {
    size_t end = std::min(text.find(' ', at), text.size());
    std::string_view word = text.substr(at, end - at);
    if (at > 0 && line.size() + 1 + word.size() > columns) {
      lines += line + "\n";
      line = "     ";
    }
    line += " ";
    line += word;
    at = end + 1;
  }
  return lines + line + "\n";
}

}  // namespace

std::string pass_list_text(int columns) {
  constexpr const char* kLine = "{:<28}{:<9}{:<9}{:<11}{}\n";
  std::string text = fmt::format(kLine, "pass", "stage", "backend", "serves", "from level");
  for (const passes::Listed& line : passes::list()) {
    const passes::Pass& pass = pass_of(line);
    text += fmt::format(kLine, pass.name, name(pass.stage), line.backend, name(pass.serves),
                        has_level(line) ? line.level : "-");
    text += wrapped(pass.summary, static_cast<size_t>(columns));
    if (!pass.trade.empty())
      text += wrapped(fmt::format("trade: {}", pass.trade), static_cast<size_t>(columns));
  }
  return text;
}

std::string pass_list_json() {
  auto json = nlohmann::ordered_json::array();
  for (const passes::Listed& line : passes::list()) {
    const passes::Pass& pass = pass_of(line);
    json.push_back({{"pass", pass.name},
                    {"stage", name(pass.stage)},
                    {"backend", line.backend},
                    {"serves", name(pass.serves)},
                    {"level", has_level(line) ? nlohmann::ordered_json(line.level) : nullptr},
                    {"summary", pass.summary},
                    {"trade", pass.trade}});
  }
  return json.dump(2) + "\n";
}

}  // namespace ridge::apps
